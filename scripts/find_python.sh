#!/bin/sh
# Prints the full path of the first Python 3.11 to 3.13 that has venv. $PYTHON, when set, is the only candidate;
# otherwise the interpreter that .venv was made with comes first, so that one choice of PYTHON lasts.

probe='
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(3)
try:
    import ensurepip, venv
except ImportError:
    sys.exit(4)
print(getattr(sys, "_base_executable", sys.executable))
'

without_venv=
if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- .venv/bin/python python3.11 python3.12 python3.13 python3; fi
for candidate in "$@"; do
    path=$("$candidate" -c "$probe" 2>/dev/null)
    case $? in
        0) printf '%s\n' "$path"; exit 0 ;;
        4) without_venv=${without_venv:-$candidate} ;;
    esac
done

if [ -n "$without_venv" ]; then
    version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "$without_venv has no venv module. Run: sudo apt-get install -y python$version-venv" >&2
elif [ -n "${PYTHON:-}" ]; then
    found=$("$PYTHON" --version 2>/dev/null)
    echo "PYTHON=$PYTHON is not a Python 3.11 to 3.13 (it is ${found:-nothing that runs}). Set PYTHON to one." >&2
else
    found=$(python3 --version 2>/dev/null)
    echo "No Python 3.11 to 3.13 found (python3 is ${found:-not there}). Install one, or set PYTHON to its path." >&2
fi
exit 1
