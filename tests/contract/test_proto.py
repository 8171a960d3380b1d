"""The committed gRPC code is what the committed .proto files make, with the committed tools."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path("plugin/v1beta1")
PROTOS = sorted(path.name for path in (ROOT / FOLDER).glob("*.proto"))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("proto")
    tools = Path(sys.executable).parent
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", "-I."),
            *(f"--python_out={out}", f"--grpc_python_out={out}"),
            *(f"--plugin=protoc-gen-mypy={tools}/protoc-gen-mypy", f"--mypy_out={out}"),
            f"--plugin=protoc-gen-mypy_grpc={tools}/protoc-gen-mypy_grpc",
            f"--mypy_grpc_out=only_async:{out}",
            *(str(FOLDER / name) for name in PROTOS),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return out / FOLDER


def test_generated_code_is_up_to_date(generated: Path) -> None:
    made = {path.name: path.read_text() for path in generated.iterdir()}
    assert len(made) == 4 * len(PROTOS) > 0
    committed = {name: (ROOT / FOLDER / name).read_text() for name in made}
    assert committed == made, "run `make proto`"


def test_generated_code_of_no_lost_proto_is_left() -> None:
    stems = {path.name.split("_pb2")[0] for path in (ROOT / FOLDER).glob("*_pb2*")}
    assert stems == {name.removesuffix(".proto") for name in PROTOS}
