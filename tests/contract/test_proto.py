"""The committed gRPC code is what the committed .proto files make, with the committed tools."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOS = sorted(path.relative_to(ROOT) for path in ROOT.glob("plugin/*/*.proto"))


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
            *map(str, PROTOS),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return out


def test_generated_code_is_up_to_date(generated: Path) -> None:
    made = {path.relative_to(generated): path.read_text() for path in generated.glob("plugin/*/*")}
    assert len(made) == 4 * len(PROTOS) > 0
    committed = {path: (ROOT / path).read_text() for path in made}
    assert committed == made, "run `make proto`"


def test_generated_code_of_no_lost_proto_is_left() -> None:
    found = {path.relative_to(ROOT) for path in ROOT.glob("plugin/*/*_pb2*")}
    stems = {path.with_name(path.name.split("_pb2")[0] + ".proto") for path in found}
    assert stems == set(PROTOS)
