"""The examples' images, which exist nowhere: what reports, under their names."""

from pathlib import Path

from ruamel.yaml import YAML

from tests.cluster import images
from tests.cluster.api import Json
from tests.cluster.node import Node
from tests.cluster.shapes import held

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def give_images(node: Node) -> None:
    """Let the node have every image that an example names."""
    for example in EXAMPLES:
        spec = held(YAML(typ="safe").load(example))["spec"]
        for container in (*spec.get("initContainers", []), *spec["containers"]):
            node.tag(_stand_in(spec, container), _full(container["image"]))


def _stand_in(spec: Json, container: Json) -> str:
    """Return which of our images behaves as a container's has to."""
    if "tensorflow/serving" in container["image"]:
        return images.SERVING
    first = container in spec.get("initContainers", []) and "restartPolicy" not in container
    return images.ONCE if first else images.WORKLOAD


def _full(image: str) -> str:
    """Return an image's name with the registry that is meant where none is named."""
    return image if "." in image.split("/")[0] else f"docker.io/{image}"
