"""Scenarios of keys: the login, what a reader may do, and what is hidden."""

import json

from seed import Api


def logs_in_and_out_and_keeps_no_key(world):
    server, admin, _ = world.keyed
    view = world.view(server)
    view.open(wait="#log-in input")
    view.axe()
    view.page.fill("#log-in input", "not-the-key-at-all")
    view.press("Enter")
    view.page.wait_for_selector("#log-in [role=alert]")
    view.page.fill("#log-in input", admin)
    view.press("Enter")
    view.page.wait_for_selector("nav")
    view.see("ada", "orders")
    kept = view.page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, document.documentElement.outerHTML])")
    assert admin not in kept
    cookie = next(cookie for cookie in view.context.cookies() if "dueq_session" in cookie["name"])
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["path"] == "/dueq", cookie
    view.page.click("[aria-label='Log out']")
    view.page.wait_for_selector("#log-in")
    view.page.reload()
    view.page.wait_for_selector("#log-in")
    view.check()


def lists_keys_without_their_secrets(world):
    server, admin, reader = world.keyed
    view = world.logged_in(admin).open("#/instances")
    rows = view.page.locator("[aria-label=Keys] tbody tr")
    assert [text.split() for text in rows.all_inner_texts()] == [["ada", "you", "admin", "–"], ["rita", "read:*", "–"]]
    page = view.page.content()
    assert "sha256" not in page and admin not in page and reader not in page
    view.axe()
    view.check()
    view = world.logged_in(reader).open("#/instances")
    view.see("Keys are not available", "lacks admin")
    view.axe()
    view.check()


def names_the_key_that_published_a_callback(world):
    server, admin, reader = world.keyed
    made = Api(server, admin)("POST", "/callbacks", {"url": "http://127.0.0.1:9/late", "delay_ms": 3_600_000})
    view = world.logged_in(reader).open(f"#/messages/{made['id']}")
    fact = view.page.locator("dl.facts > div", has_text="Published by")
    assert fact.locator("dd").inner_text() == "ada"
    view.axe()
    view.check()
    # Of other messages that is not kept.
    message = Api(server, admin)("GET", "/topics/orders/messages?state=dead&limit=1")["items"][0]
    view = world.logged_in(reader).open(f"#/messages/{message['id']}")
    view.see("Published")
    assert view.page.get_by_text("Published by").count() == 0
    view.check()


def shows_sizes_where_payloads_are_hidden(world):
    server, admin, _ = world.keyed
    api = Api(server, admin)
    delayed = api("GET", "/topics/orders/messages?state=delayed&payload=true")["items"][0]
    assert delayed["payload"] == {"order": 9}, "the API shows it"
    view = world.logged_in(admin).open(f"#/messages/{delayed['id']}")
    view.see("application/json · 12 bytes", "Payloads are hidden")
    assert '"order"' not in view.page.content()
    view.page.click("[aria-label='More actions'][data-menu]")
    for action in ("Edit…", "Duplicate…", "As curl…"):
        assert view.page.locator(f".popover button:has-text('{action}')").get_attribute("aria-disabled") == "true", action
    view.press("Escape")
    view.axe()
    view.open("#/schedules/daily").see("hidden, about 1 byte")
    assert view.page.locator("main button:has-text('Edit')").get_attribute("aria-disabled") == "true"
    view.open("#/topics/orders?state=delayed")
    assert view.page.locator("thead th:has-text('Payload')").count() == 0
    with view.page.expect_download() as download:
        view.page.click("[aria-label='Actions on the list']")
        view.page.click(".popover:popover-open button:has-text('Export NDJSON')")
    lines = open(download.value.path()).read().splitlines()
    assert len(lines) == 1 and "payload" not in json.loads(lines[0]), lines
    view.check()


def goes_to_the_login_when_the_session_ends(world):
    _, admin, _ = world.keyed
    view = world.logged_in(admin)
    view.context.clear_cookies()
    view.page.wait_for_selector("#log-in")
    view.check()


def works_below_a_base_path(world):
    _, admin, _ = world.keyed
    view = world.logged_in(admin)
    asked = []
    view.page.on("request", lambda request: asked.append(request.url))
    for place in ("#/topics/orders", "#/dead", "#/callbacks", "#/schedules", "#/instances"):
        view.open(place)
    view.page.wait_for_timeout(2500)
    assert asked and all("/dueq/" in url for url in asked), asked
    view.check()


def lets_a_reader_do_nothing_and_says_why(world):
    server, admin, reader = world.keyed
    view = world.logged_in(reader)
    view.see("This key may only read")
    api = Api(server, admin)
    dead = api("GET", "/topics/orders/messages?state=dead")["items"][0]["id"]
    delayed = api("GET", "/topics/orders/messages?state=delayed")["items"][0]["id"]
    verbs = "Redrive|Run now|Reschedule|Pause|Resume|Delete|Purge|Save|Edit|Duplicate|Publish$"
    for place in (f"#/messages/{dead}", f"#/messages/{delayed}", "#/topics/orders?state=dead", "#/dead", "#/schedules/daily", "#/publish?topic=orders", "#/topics"):
        view.open(place)
        view.press("j", "e")
        enabled = view.page.evaluate(
            """(verbs) => [...document.querySelectorAll('main button:not([aria-disabled=true])')]
                .map((button) => (button.textContent.trim() || button.title)).filter((text) => new RegExp(`^(${verbs})`).test(text))""",
            verbs,
        )
        assert not enabled, (place, enabled)
        assert view.page.locator("main [aria-disabled=true]").count() > 0, place
    view.axe()
    view.check()
    titles = view.open(f"#/messages/{dead}").page.locator("main button[aria-disabled=true]").first.get_attribute("title")
    assert "operate:orders" in titles, titles
    assert api("GET", "/topics/orders")["counts"]["dead"] == 3
    status = view.page.evaluate("fetch('../dueq/messages/%s/redrive', {method: 'POST', headers: {'dueq-ui': '1'}}).then((answer) => answer.status)" % dead)
    assert status == 403, status
