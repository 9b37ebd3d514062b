"""What scenarios stand on: dueq, Redis, and a browser whose pages note what they must not do."""

import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import TimeoutError

from seed import Api

# The browser asks nothing of anybody but the pages.
FLAGS = (
    "--no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run --disable-extensions "
    "--disable-background-networking --disable-component-update --disable-sync --disable-default-apps"
).split()
# How long a page may take on a machine that does other things as well (s).
PATIENCE = 60
WATCH = """
window.notes = [];
window.clicks = 0;
document.addEventListener("click", (event) => { if (event.isTrusted && event.detail > 0) clicks++; }, true);
document.addEventListener("securitypolicyviolation", (event) => notes.push(`CSP ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
window.ran = (what) => notes.push(`ran ${what}`);
window.alert = (what) => notes.push(`alert ${what}`);
"""


def free_port():
    """Below the ports that the kernel gives to outgoing connections, one of which could take it before it is used."""
    while True:
        port = random.randrange(22_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Process:
    def __init__(self, args, ready, env=None):
        self.log = tempfile.NamedTemporaryFile(suffix=".log")
        env = {name: value for name, value in os.environ.items() if not name.startswith("DUEQ_")} | (env or {})
        self.child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env)
        end = time.monotonic() + PATIENCE
        while not ready():
            if self.child.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{args} does not run: {Path(self.log.name).read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(20)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


class Stage:
    def __init__(self, binary, playwright):
        self.binary = binary
        self.dir = Path(tempfile.mkdtemp(prefix="dueq-ui-"))
        self.processes = []
        # The first knows no windows: that spares half the time of a processor.
        names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
        path = next((found for found in map(shutil.which, names) if found), None)
        assert path, "no chromium: `tests/setup.sh` installs what the tests need"
        self.browser = playwright.chromium.launch(executable_path=path, args=FLAGS)

    def redis(self, port):
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        args = [program, "--port", str(port), "--save", "", "--dir", str(self.dir), "--bind", "127.0.0.1"]
        return self._run(args, lambda: can_connect(port))

    def dueq(self, *args, base=""):
        """Its URL, base path included."""
        port = free_port()
        server = f"http://127.0.0.1:{port}"
        command = [self.binary, "serve", "--listen", f"127.0.0.1:{port}", "--callback-allow", "127.0.0.0/8"]
        if "--redis-url" not in args:
            command += ["--data-dir", str(self.dir / str(port))]
        if base:
            command += ["--public-url", server + base]
        self._run([*command, *args], lambda: answers(f"{server}/readyz"))
        return server + base

    def nginx(self, port, server):
        """The URL below which nginx passes requests on to this server."""
        dir = self.dir / f"nginx-{port}"
        dir.mkdir()
        temp = " ".join(f"{name}_temp_path {dir}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        proxy = f"proxy_pass {server}; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $http_host;"
        where = f"server {{ listen 127.0.0.1:{port}; location /dueq/ {{ {proxy} }} }}"
        (dir / "nginx.conf").write_text(
            f"pid {dir}/pid; daemon off; master_process off; events {{}} http {{ access_log off; {temp} {where} }}"
        )
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self._run([program, "-e", "stderr", "-p", str(dir), "-c", str(dir / "nginx.conf")], lambda: can_connect(port))
        return f"http://127.0.0.1:{port}/dueq"

    def _run(self, args, ready):
        process = Process(args, ready)
        self.processes.append(process)
        return process

    def view(self, server, **context):
        return View(self.browser, server, **context)

    def close(self):
        self.browser.close()
        for process in reversed(self.processes):
            process.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


def can_connect(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def monitor(port):
    """Counts the commands that clients send to this Redis."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"MONITOR\r\n")
        connection.setblocking(False)

        def count():
            said = bytearray()
            with suppress(BlockingIOError):
                while part := connection.recv(1 << 20):
                    said += part
            # Those within scripts come from `lua`.
            return sum(b"]" in line and b" lua] " not in line for line in said.splitlines())

        yield count


def answers(url):
    try:
        return urllib.request.urlopen(url, timeout=2).status == 200
    except (OSError, urllib.error.HTTPError):
        return False


def built(dist, url):
    """The file of this directory that the asset was made of: of a build newer than the binary."""
    stem, ending = url.rsplit("/", 1)[1].split(".")
    return str(Path(dist) / f"{stem.rsplit('-', 1)[0]}.{ending}")


class View:
    """A page of the dashboard. `check` tells what it did that it must not do."""

    def __init__(self, browser, server, width=1440, theme="light", height=900, **context):
        self.server = server
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce", **{"timezone_id": "UTC", **context}
        )
        self.context.set_default_timeout(PATIENCE * 1000)
        self.page = self.context.new_page()
        self.wrong = []
        self.page.add_init_script(WATCH)
        origin = "/".join(server.split("/")[:3]) + "/"
        if dist := os.environ.get("DUEQ_UI_DIST"):
            self.page.route("**/ui/assets/*", lambda route: route.fulfill(path=built(dist, route.request.url)))
        self.page.on("request", lambda request: self._asked(request.url, origin))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        self.page.on("dialog", lambda dialog: (self.wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def _asked(self, url, origin):
        if not url.startswith((origin, "data:", "blob:")):
            self.wrong.append(f"asked {url}")

    def open(self, place="#/", wait="main h1", still=True, state="visible"):
        """Goes to a screen; within the page where one is open. Until nothing loads any more, if `still`."""
        if self.page.url.startswith(f"{self.server}/ui"):
            self.page.evaluate("(place) => { location.hash = place }", place)
        else:
            self.page.goto(f"{self.server}/ui{place}")
            # On a busy machine the browser's own start may leave a first page blank.
            try:
                self.page.wait_for_selector(wait, state=state, timeout=15_000)
            except TimeoutError:
                self.page.reload()
        self.page.wait_for_selector(wait, state=state)
        if still:
            self.settled()
        return self

    def settled(self):
        """Until nothing is loading any more."""
        self.until("!document.querySelector('.skeleton')")
        self.page.wait_for_timeout(60)

    def see(self, *texts):
        for text in texts:
            self.page.get_by_text(text, exact=False).locator("visible=true").first.wait_for()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def until(self, script, argument=None):
        """Until it is true. Playwright's own wait is an `eval` in the page, which the page's policy forbids."""
        end = time.monotonic() + PATIENCE
        while not self.page.evaluate(script, argument):
            assert time.monotonic() < end, f"never {script}"
            self.page.wait_for_timeout(30)

    def clicks(self):
        """How often somebody clicked since the page was opened."""
        return self.page.evaluate("clicks")

    def axe(self):
        # What axe does to the page is not the page's doing.
        before = self.page.evaluate("notes.length")
        found = Axe().run(self.page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]})
        self.page.evaluate("(before) => { notes.length = before }", before)
        for violation in found.response["violations"]:
            nodes = [f"{node['target']} {node.get('failureSummary', '')[:180]}" for node in violation["nodes"][:3]]
            self.wrong.append(f"axe {violation['id']}: {nodes}")

    def check(self):
        wrong, self.wrong = self.wrong + self.page.evaluate("notes.splice(0)"), []
        assert not wrong, "\n".join(wrong)

    def close(self):
        self.context.close()


def new_key(binary, name, *scopes):
    """A key, and its line for the file."""
    args = [binary, "keys", "new", "--name", name]
    for scope in scopes:
        args += ["--allow", scope]
    made = subprocess.run(args, capture_output=True, text=True, check=True)
    key = next(word for word in made.stderr.split() if word.startswith("dq_"))
    return key, made.stdout.strip()


__all__ = ["Api", "Stage", "View", "free_port", "monitor", "new_key"]
