"""Set-up: it says what is missing in one line, skips what is there, and needs no network the second time."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from scripts import lock
from scripts.set_up import environment, java, packages, stamps
from scripts.set_up.console import SetUpError, run_logged
from scripts.set_up.places import Places, here

BROKEN_NETWORK = dict.fromkeys(
    ("PIP_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9/"
) | {"PIP_FIND_LINKS": "", "PIP_RETRIES": "0"}


def test_a_second_set_up_needs_no_network() -> None:
    if not (here().venv / ".stamp-package").exists():
        pytest.skip("this checkout was not set up by make")
    done = subprocess.run(
        [sys.executable, "-B", "-m", "scripts.set_up"],
        cwd=here().root, env=os.environ | BROKEN_NETWORK, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(" in ")[0] for line in done.stdout.splitlines()] == ["set-up: ready"]


# --- the virtual environment, with real pip and a lock of one package from a folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A small project beside a folder of wheels that the user's pip configuration points to."""
    root = tmp_path_factory.mktemp("checkout")
    wheel = make_wheel(root / "wheels")
    pin = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (root / "requirements.lock").write_text(f"tiny==1.0 \\\n    --hash=sha256:{pin}\n")
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "tiny"\nversion = "2.0"\n'
    )
    (root / "backend.py").write_text(
        "import shutil\n"
        "def build_editable(folder, config_settings=None, metadata_directory=None):\n"
        "    shutil.copy('editable/mine-1.0-py3-none-any.whl', folder)\n"
        "    return 'mine-1.0-py3-none-any.whl'\n"
        "def build_wheel(*arguments, **options):\n"
        "    raise NotImplementedError\n"
    )
    make_wheel(root / "editable", name="mine")
    return Places(root)


def make_wheel(folder: Path, name: str = "tiny") -> Path:
    folder.mkdir()
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={hash_of(text)},{len(text)}\n" for path, text in files.items())
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return wheel


def hash_of(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def test_packages_are_installed_once_by_the_users_own_pip_configuration(
    checkout: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(checkout.root / "wheels"))
    packages.prepare(checkout)
    subprocess.run([checkout.python, "-c", "import tiny, mine"], check=True)
    assert "installing the 1 packages of requirements.lock" in capsys.readouterr().out

    monkeypatch.setenv("PIP_FIND_LINKS", "")
    packages.prepare(checkout)
    assert capsys.readouterr().out == ""


def test_a_wrong_hash_is_refused_and_the_log_is_named(checkout: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(checkout.root / "wheels"))
    right = checkout.lock.read_text()
    checkout.lock.write_text(f"tiny==1.0 --hash=sha256:{'0' * 64}\n")
    subprocess.run([checkout.python, "-m", "pip", "uninstall", "--yes", "--quiet", "tiny"], check=True)
    try:
        with pytest.raises(SetUpError) as failure:
            packages.prepare(checkout)
    finally:
        checkout.lock.write_text(right)
    assert "HASHES" in str(failure.value)
    assert str(failure.value).endswith(f"The whole output: {checkout.work / 'pip.log'}")


def test_a_moved_checkout_gets_a_new_environment(
    checkout: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(checkout.root / "wheels"))
    packages.prepare(checkout)
    capsys.readouterr()
    moved = Places(Path(shutil.copytree(checkout.root, tmp_path / "moved", symlinks=True)))
    packages.prepare(moved)
    assert "removing .venv: unfinished, moved, or made with another Python" in capsys.readouterr().out
    subprocess.run([moved.python, "-c", "import tiny"], check=True)


# --- what it shows


def test_a_long_command_gives_a_sign_of_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = "import time; print('Collecting numpy==2 (from x)', flush=True); time.sleep(1)"
    run_logged(
        "working", [sys.executable, "-c", program], log=tmp_path / "log",
        progress=packages.pip_progress(7), heartbeat_seconds=0.2,
    )  # fmt: skip
    shown = capsys.readouterr().out
    assert "set-up:   ... 1 of 7: numpy==2, " in shown
    assert "Collecting numpy==2 (from x)" in (tmp_path / "log").read_text()


def test_a_failed_command_shows_its_last_lines(tmp_path: Path) -> None:
    program = "import sys; [print('line', n) for n in range(100)]; sys.exit(3)"
    with pytest.raises(SetUpError) as failure:
        run_logged("working", [sys.executable, "-c", program], log=tmp_path / "log")
    first, *shown, last = str(failure.value).splitlines()
    assert first == "failed with exit code 3: working"
    assert shown[-1].strip() == "line 99"
    assert len(shown) == 20
    assert last.endswith(str(tmp_path / "log"))


def test_a_stamp_holds_for_its_own_inputs_alone(tmp_path: Path) -> None:
    source, stamp = tmp_path / "source", tmp_path / "deep" / "stamp"
    source.write_text("one")
    value = stamps.digest(["3.11"], [source])
    assert not stamps.holds(stamp, value)
    stamps.put(stamp, value)
    assert stamps.holds(stamp, value)
    assert stamps.digest(["3.12"], [source]) != value
    source.write_text("two")
    assert stamps.digest(["3.11"], [source]) != value


# --- Java


def make_java(home: Path, version: str, *, javac: bool = True) -> Path:
    """A `java` that answers as a JDK of that version does."""
    (home / "bin").mkdir(parents=True)
    script = f"""\
        #!/bin/sh
        echo 'Property settings:
            java.home = {home}
            java.specification.version = {version}' >&2
        """
    for name in ["java", *(["javac"] if javac else [])]:
        (home / "bin" / name).write_text(textwrap.dedent(script))
        (home / "bin" / name).chmod(0o755)
    return home


def test_the_jdk_of_java_home_comes_before_that_of_path_and_of_the_system(tmp_path: Path) -> None:
    first, second, third = (make_java(tmp_path / name, "21") for name in ("own", "path", "jvm/system"))
    env = {"JAVA_HOME": str(first), "PATH": str(second / "bin")}
    assert java.find(env, tmp_path / "jvm") == java.Jdk(first, 21)
    assert java.find({"PATH": env["PATH"]}, tmp_path / "jvm") == java.Jdk(second, 21)
    assert java.find({"PATH": ""}, tmp_path / "jvm") == java.Jdk(third, 21)


def test_an_old_java_and_one_without_a_compiler_are_passed_over(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "1.8")
    runtime = make_java(tmp_path / "runtime", "21", javac=False)
    env = {"JAVA_HOME": str(old), "PATH": str(runtime / "bin")}
    assert java.find(env, tmp_path / "jvm") is None
    good = make_java(tmp_path / "jvm" / "good", "17")
    assert java.find(env, tmp_path / "jvm") == java.Jdk(good, 17)


def test_no_java_is_one_line_with_the_command_to_run(tmp_path: Path) -> None:
    with pytest.raises(SetUpError) as failure:
        java.prepare(Places(tmp_path), {"PATH": ""}, may_install=False, jvm_folder=tmp_path)
    message = str(failure.value)
    assert message.startswith("no JDK 17 or newer (java and javac) by JAVA_HOME, PATH or ")
    assert "\n" not in message
    assert "apt-get install -y --no-install-recommends " in message or "set JAVA_HOME" in message


def test_the_chosen_jdk_is_remembered_until_it_goes_or_the_user_names_another(tmp_path: Path) -> None:
    places, home = Places(tmp_path / "it's here"), make_java(tmp_path / "jdk", "17")
    assert environment.known_java_home(places, {}) is None
    environment.write(places, home)
    assert environment.known_java_home(places, {}) == home
    assert environment.known_java_home(places, {"JAVA_HOME": str(tmp_path)}) is None
    sourced = subprocess.run(
        ["sh", "-c", f'. "{places.environment}"; echo "$JAVA_HOME:$DATABRICKS_BRIDGE_CACHE"'],
        capture_output=True,
        text=True,
    )
    assert sourced.stdout.strip() == f"{home}:{places.engine_cache}"
    shutil.rmtree(home)
    assert environment.known_java_home(places, {}) is None


# --- Python


def find_python(tmp_path: Path, **fakes: str) -> subprocess.CompletedProcess[str]:
    """Runs find_python.sh where PATH holds the given scripts and nothing else."""
    (tmp_path / "bin").mkdir()
    for name, body in fakes.items():
        file = tmp_path / "bin" / name.replace("_", ".")
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)
    env = {"PATH": str(tmp_path / "bin")}
    script = here().root / "scripts" / "find_python.sh"
    return subprocess.run(["/bin/sh", str(script)], cwd=tmp_path, env=env, capture_output=True, text=True)


def test_a_python_that_is_too_old_is_named_in_one_line(tmp_path: Path) -> None:
    old = '[ "$1" = --version ] && echo "Python 3.10.13" && exit 0; exit 3'
    done = find_python(tmp_path, python3=old)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "No Python 3.11 to 3.13 found (python3 is Python 3.10.13). Install one, or set PYTHON to its path.\n"
    )


def test_a_python_without_venv_is_told_the_package_to_install(tmp_path: Path) -> None:
    bare = 'case "$2" in *ensurepip*) exit 4 ;; *) echo 3.12 ;; esac'
    done = find_python(tmp_path, python3_12=bare)
    assert done.returncode == 1
    assert done.stderr == "python3.12 has no venv module. Run: sudo apt-get install -y python3.12-venv\n"


def test_a_broken_shim_does_not_hide_a_good_python(tmp_path: Path) -> None:
    done = find_python(tmp_path, python3_11="exit 127", python3_13=f'exec "{sys.executable}" "$@"')
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).exists()


# --- the lock and the targets


def test_the_lock_names_no_place_and_hashes_every_pin() -> None:
    text = here().lock.read_text()
    assert lock.faults(text) == []
    assert len(lock.requirements(text)) == len(packages.locked_names(text)) > 100


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("--index-url https" + "://example.test/simple\n", "names a place"),
        ("--find-links /wheels\n", "names a place"),
        ("tiny @ file" + ":///wheels/tiny.whl --hash=sha256:00\n", "names a place"),
        ("tiny>=1 --hash=sha256:00\n", "not pinned: tiny"),
        ("tiny==1 ; python_version < '3.12'\n", "without a hash: tiny"),
    ],
)
def test_an_unfit_lock_is_refused(text: str, fault: str) -> None:
    assert any(fault in found for found in lock.faults(text))


def test_the_lock_keeps_to_the_constraints() -> None:
    constraints = (here().root / "scripts" / "constraints.txt").read_text()
    pins = {pin.split()[0] for pin in lock.requirements(here().lock.read_text())}
    assert {line for line in constraints.splitlines() if not line.startswith("#")} <= pins


@pytest.mark.parametrize("target", ["docs"])
def test_a_target_that_is_not_built_does_not_pretend(target: str) -> None:
    done = subprocess.run(["make", "--silent", target], cwd=here().root, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"make {target}: not built yet" in done.stderr
