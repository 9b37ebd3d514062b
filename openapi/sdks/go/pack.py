"""Packs a Go module as a module proxy serves it, so that `go get` takes it from a folder (GOPROXY=file://...).

    pack.py FOLDER MODULE VERSION DIST

writes DIST/go/MODULE/@v/{list,VERSION.info,VERSION.mod,VERSION.zip} and a copy of the zip, DIST/dueq-go-VERSION.zip. There is no
`go` command for it; the format is that of https://go.dev/ref/mod#zip-files. The same files give the same zip.
"""

import json
import shutil
import sys
import zipfile
from pathlib import Path

folder, module, version, dist = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
served = dist / "go" / module / "@v"
shutil.rmtree(dist / "go", ignore_errors=True)
served.mkdir(parents=True)

moment = (2026, 1, 1, 0, 0, 0)
with zipfile.ZipFile(served / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        entry = zipfile.ZipInfo(f"{module}@{version}/{path.relative_to(folder)}", moment)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o644 << 16
        packed.writestr(entry, path.read_bytes())
(served / "list").write_text(f"{version}\n")
(served / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "2026-01-01T00:00:00Z"}))
(served / f"{version}.mod").write_bytes((folder / "go.mod").read_bytes())
for old in dist.glob("dueq-go-*.zip"):
    old.unlink()
shutil.copy(served / f"{version}.zip", dist / f"dueq-go-{version}.zip")
