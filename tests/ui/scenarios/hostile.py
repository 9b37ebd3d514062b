"""Attempts of an attacker whose strings are published, and shown by every screen."""

import json
import time
from urllib.parse import quote

from seed import Api, batch


HOSTILE = [
    "<script>ran('script')</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>ran('nested')</scr</script>ipt>",
    "<script\\x20type=module>ran('module')</script>",
    "<script>/*\n*/ran('lines')</script>",
    "<img src=x onerror=ran('img')>",
    "<img src=x onerror=ran('img') //",
    "<IMG \"\"\"><SCRIPT>ran('quotes')</SCRIPT>\">",
    "<img/src/onerror=ran('slashes')>",
    "<svg onload=ran('svg')>",
    "<svg><script>ran('svg script')</script></svg>",
    "<svg><animate onbegin=ran('animate') attributeName=x dur=1s>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload=ran(1)>#x'></svg>",
    "\"><svg/onload=ran('attribute')>",
    "' onmouseover=ran('attribute') x='",
    "\" autofocus onfocus=ran('focus') x=\"",
    "'-ran('quote')-'",
    "\\'-ran('escape')//",
    "javascript:ran('url')",
    "JaVaScRiPt:ran('case')",
    "java\tscript:ran('tab')",
    "javascript://%0aran('comment')",
    "vbscript:msgbox(1)",
    "data:text/html,<script>ran(1)</script>",
    "data:text/html;base64,PHNjcmlwdD5yYW4oMSk8L3NjcmlwdD4=",
    "blob:null/ran",
    "</textarea><script>ran('textarea')</script>",
    "</title><script>ran('title')</script>",
    "</style><script>ran('style')</script>",
    "</script><script>ran('end')</script>",
    "</noscript><script>ran('noscript')</script>",
    "</pre><img src=x onerror=ran('pre')>",
    "{{constructor.constructor('ran(1)')()}}",
    "${ran('template')}",
    "#{ran('ruby')}",
    "<%= ran('erb') %>",
    "`${ran('backtick')}`",
    "<iframe srcdoc='<script>parent.ran(1)</script>'>",
    "<iframe src=javascript:parent.ran('iframe')>",
    "<object data=javascript:ran('object')>",
    "<embed src=javascript:ran('embed')>",
    "<a href='javascript:ran(1)'>click</a>",
    "<form action=javascript:ran('form')><button>send</button></form>",
    "<button formaction=javascript:ran('button')>x</button>",
    "<input autofocus onfocus=ran('input')>",
    "<details open ontoggle=ran('details')>",
    "<video><source onerror=ran('video')></video>",
    "<body onload=ran('body')>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=javascript:ran(1)'>",
    "<math><mtext><style><img src=x onerror=ran('mxss')>",
    "<!--><img src=x onerror=ran('comment')>-->",
    "<![CDATA[<script>ran('cdata')</script>]]>",
    "<style>*{background:url(//evil.example/x)}</style>",
    "<x style='animation-name:x' onanimationstart=ran('css')>",
    "&lt;script&gt;ran('entity')&lt;/script&gt;",
    "\\u003cscript\\u003eran('escaped')\\u003c/script\\u003e",
    "%3Cscript%3Eran('percent')%3C/script%3E",
    "__proto__",
    "constructor",
    "toString",
    "a\u202egnp.exe",
    "zero\u200bwidth",
    "\u2066\u2067isolates\u2069",
    "nul\u0001\u001b[31mred",
]


def runs_nothing_of_hostile_strings(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "hostile", [{"payload": text, "key": text, "group": text} for text in HOSTILE])
    api.kill("hostile", HOSTILE)
    called = []
    for number, text in enumerate(HOSTILE):
        fields = {"payload": {text: text, "list": [text]}, "key": text, "headers": {"x-hostile": _printable(text)}}
        # Of a URL only what may stand in one.
        query = quote(text, safe="'()*!;:@&=+$,/?").replace("%", "%25" if number % 2 else "%")
        url = f"{world.target}/say/{text.encode().hex()}?{query}"
        called.append(api("POST", "/callbacks", {"url": url, "max_attempts": 1, **fields})["id"])
        api("PUT", f"/schedules/hostile-{number}", {"every_ms": 3_600_000, "callback": {"url": url}, "message": fields})
    ends = time.monotonic() + 30
    while any("answer" not in json.dumps(api("GET", f"/messages/{id}")["events"]) for id in called):
        assert time.monotonic() < ends, "not all were called"
        time.sleep(0.2)
    view = world.view()
    for place in ["#/topics/hostile?state=dead", "#/topics/hostile", "#/topics/hostile?view=groups", "#/dead", "#/schedules", "#/callbacks?state=dead"]:
        view.open(place)
    for number, id in enumerate(called):
        # The answer lies in a closed part.
        view.open(f"#/messages/{id}", wait=".timeline pre", still=False, state="attached")
        view.page.wait_for_selector(".tree")
        view.page.evaluate("() => document.querySelectorAll('[aria-label=\"Payload as\"] button')[1].click()")
        if number % 3 == 0:
            view.open(f"#/schedules/hostile-{number}", wait="pre", still=False)
    view.check()
    for number in range(len(HOSTILE)):
        api("DELETE", f"/schedules/hostile-{number}")


def runs_nothing_of_hostile_links(world):
    view = world.view()
    places = ["#/topics/orders?q=", "#/dead?filter=", "#/topics/", "#/schedules/", "#/", "#/messages/", "#/?filter="]
    for number, text in enumerate(HOSTILE):
        for place in places[number % 3 :: 3]:
            view.open(place + quote(text, safe=""), wait="main", still=False)
    view.check()


def _printable(text):
    return "".join(character for character in text if 32 <= ord(character) < 127)


def marks_characters_that_would_hide_or_turn_text(world):
    server, _ = world.open
    api = Api(server)
    made = api("POST", "/topics/marks/messages", raw='{"payload": "a\u202eb", "key": "k\u2066\u200b"}'.encode())
    view = world.view().open(f"#/messages/{made['id']}")
    view.see("U+202E", "U+2066", "U+200B")
    assert "\u202e" not in view.page.locator("main").inner_text()
    view.check()
