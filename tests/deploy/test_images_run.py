"""Built images as somebody meets them: `--help`, a version, and a user who may write nothing.

By buildah over the store that tests/cluster/pods/images.sh keeps, which is only read here.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import KEPT
from tests.deploy.test_images import IMAGES, PYPROJECT, START

pytestmark = pytest.mark.pods

VERSION = PYPROJECT["project"]["version"]
STORE = KEPT.parent / "images" / "store"
TRIED = """
import importlib, json, os, subprocess, sys
start, entry = sys.argv[1], sys.argv[2:]
said = {word: subprocess.run([*entry, word], capture_output=True, text=True).stdout.strip()
        for word in ("--help", "--version")}
said["user"] = f"{os.getuid()}:{os.getgid()}"
folders = ("/", "/opt/lockstep", "/usr", "/etc")
said["may write"] = [each for each in folders if os.access(each, os.W_OK)]
importlib.import_module(start)
loaded = {name: getattr(each, "__cached__", None) for name, each in sys.modules.items()}
said["compiled at each start"] = [name for name, path in loaded.items()
                                  if isinstance(path, str) and not os.path.exists(path)]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Runs it with a store of its own above the kept one; nothing is left."""
    if os.environ.get("LOCKSTEP_PODS") != "1":
        pytest.skip("images are run only where LOCKSTEP_PODS=1 asks for them")
    if os.geteuid() or shutil.which("buildah") is None or not STORE.is_dir():
        pytest.skip("no images: tests/cluster/pods/images.sh was not run by root, or failed")
    own = tmp_path_factory.mktemp("images")
    options = (
        "--root", str(own / "root"), "--runroot", str(own / "run"), "--storage-driver", "overlay",
        "--storage-opt", f"additionalimagestore={STORE}",
        "--storage-opt", "overlay.skip_mount_home=true",
    )  # fmt: skip

    def call(*words: str) -> str:
        answer = subprocess.run(
            ["buildah", *options, *words], capture_output=True, text=True, timeout=120, check=False
        )
        if answer.returncode:
            raise AssertionError(f"buildah {' '.join(words)}: {answer.stdout}{answer.stderr}")
        return answer.stdout

    yield call
    call("rm", "--all")
    assert str(own) not in Path("/proc/mounts").read_text()


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_answers_help_and_its_version_as_nobody_who_may_write(
    name: str, buildah: Callable[..., str]
) -> None:
    container = buildah("from", "--pull-never", f"localhost/lockstep-{name}:{VERSION}").strip()

    told = json.loads(buildah("inspect", container))["OCIv1"]["config"]
    entry = told.get("Entrypoint") or ["lockstep"]  # of the ranks' image the command says it
    said = json.loads(
        buildah(
            "run", "--isolation", "chroot", container, "--",
            "python", "-B", "-c", TRIED, START[name], *entry,
        )
    )  # fmt: skip

    assert said["--help"].lower().startswith("usage: lockstep")
    assert f"lockstep {VERSION}" == said["--version"]
    assert VERSION == told["Labels"]["org.opencontainers.image.version"]
    assert told["User"] == said["user"]
    assert not said["user"].startswith("0:")
    assert [] == said["may write"]
    assert [] == said["compiled at each start"]
