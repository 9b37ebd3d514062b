"""Scenarios of lists: they stay in place, select what is shown, go by keyboard, refresh, and are kept in the link."""

import time

from seed import Api, batch


def redrives_selected_messages_with_the_keyboard_only(world):
    server, _ = world.open
    api = Api(server)
    topic = f"keyboard-{time.monotonic_ns()}"
    batch(api, topic, [{"payload": number} for number in range(5)])
    api.kill(topic, ["timeout"] * 5)
    view = world.view().open("#/")
    view.press("g", "t")
    view.page.wait_for_selector("h1:has-text('Topics')")
    view.press("f")
    view.page.keyboard.type(topic)
    view.until("document.querySelectorAll('tbody [data-row]').length === 1")
    view.press("Escape", "j", "Enter")
    view.page.wait_for_selector(f"h1:has-text('{topic}')")
    view.settled()
    view.press("j", "x", "j", "x")
    view.see("2 selected")
    # Tab walks the selection's buttons.
    for _ in range(40):
        if view.page.evaluate("document.activeElement?.textContent?.trim()") == "Redrive":
            break
        view.press("Shift+Tab")
    view.press("Enter")
    view.page.wait_for_selector("dialog[open]")
    view.see(f"Redrive: 2 messages of {topic}")
    view.until("document.querySelector('dialog[open]').contains(document.activeElement)")
    for _ in range(6):
        if view.page.evaluate("document.activeElement?.textContent?.trim()") == "Redrive 2 messages":
            break
        view.press("Tab")
    view.press("Enter")
    view.see("2 messages redriven")
    counts = api("GET", f"/topics/{topic}")["counts"]
    assert (counts["ready"], counts["dead"]) == (2, 3), counts
    view.check()


def redrives_the_focused_row_with_one_key(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "one-key", [{"payload": 1}])
    api.kill("one-key", ["timeout"])
    view = world.view().open("#/topics/one-key?state=dead")
    view.press("j", "e")
    view.see("1 message redriven")
    assert api("GET", "/topics/one-key")["counts"]["dead"] == 0
    view.check()


def keeps_focus_and_scroll_while_it_refreshes(world):
    view = world.view(height=500).open("#/topics/orders?state=dead")
    view.press("j", "j", "j")
    before = view.page.evaluate("document.activeElement.closest('tr').textContent.slice(0, 20)")
    view.page.evaluate("scrollTo(0, 300)")
    view.page.wait_for_timeout(4500)
    assert view.page.evaluate("document.activeElement.closest('tr')?.textContent.slice(0, 20)") == before
    assert view.page.evaluate("scrollY") == 300
    view.check()


def keeps_a_list_still_and_says_how_many_are_new(world):
    server, _ = world.open
    api = Api(server)

    def publish(keys):
        batch(api, "still", [{"payload": 1, "delay_ms": 3_600_000, "key": key} for key in keys])

    publish(["a", "b", "c"])
    view = world.view().open("#/topics/still")
    keys = "[...document.querySelectorAll('tbody [data-row] td:nth-child(3)')].map((cell) => cell.textContent).join()"

    def shows(text):
        view.until(f"(text) => {keys} === text", text)

    shows("a,b,c")
    # The pointer.
    view.page.hover("tbody tr >> nth=1")
    api("DELETE", f"/messages/{api('GET', '/topics/still/keys/b')['id']}")
    publish(["d", "e"])
    fresh = view.page.locator(".fresh button:has-text('2 new')")
    fresh.wait_for()
    assert view.page.evaluate(keys) == "a,b,c"
    view.axe()
    fresh.click()
    shows("a,c,d,e")
    # The focus, until it leaves.
    view.page.mouse.move(700, 40)
    view.press("j")
    publish(["f"])
    view.page.locator(".fresh button:has-text('1 new')").wait_for()
    assert view.page.evaluate(keys) == "a,c,d,e"
    view.page.evaluate("document.activeElement.blur()")
    shows("a,c,d,e,f")
    # Text that is selected.
    view.page.evaluate("getSelection().selectAllChildren(document.querySelector('tbody th'))")
    publish(["g"])
    view.page.locator(".fresh button:has-text('1 new')").wait_for()
    view.page.evaluate("getSelection().removeAllRanges()")
    shows("a,c,d,e,f,g")
    # Rows that are selected.
    view.page.locator("tbody input").first.check()
    view.page.mouse.move(700, 40)
    view.page.evaluate("document.activeElement.blur()")
    publish(["h"])
    view.page.locator(".fresh button:has-text('1 new')").wait_for()
    view.page.click(".selection button:has-text('Clear')")
    shows("a,c,d,e,f,g,h")
    view.check()


def selects_all_that_are_shown_with_one_box(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "boxes", [{"payload": 1, "delay_ms": 3_600_000}] * 60)
    for width in (1440, 390):
        view = world.view(width=width).open("#/topics/boxes")
        head = view.page.get_by_label("Select all that are shown")
        view.page.locator("tbody input").nth(3).check()
        view.until("document.querySelector('thead input').indeterminate && !document.querySelector('thead input').checked")
        head.check()
        view.see("50 selected", "Select all 60")
        assert view.page.locator("tbody input:checked").count() == 50
        assert not head.evaluate("(box) => box.indeterminate")
        view.axe()
        head.uncheck()
        view.until("!document.querySelector('.selection')")
        assert view.page.locator("tbody input:checked").count() == 0
        view.check()


def shows_how_payloads_begin(world):
    server, _ = world.open
    api = Api(server)
    topic = f"previews-{time.monotonic_ns()}"
    for payload in ('{"big":\n 9007199254740993}', '"%s"' % ("x" * 200), "null"):
        api("POST", f"/topics/{topic}/messages", raw=f'{{"payload": {payload}, "delay_ms": 3600000}}'.encode())
    api("POST", f"/topics/{topic}/messages", {"payload_base64": "AAEC/w==", "content_type": "image/png", "delay_ms": 3_600_000})
    view = world.view().open(f"#/topics/{topic}")
    shown = view.page.locator("td[data-label=Payload]").all_inner_texts()
    assert shown == ['{"big": 9007199254740993}', '"%s…' % ("x" * 79), "null", "image/png, 4 bytes"], shown
    view.check()
    # The page is read without payloads from then on.
    batch(api, topic, [{"payload": "x" * 200_000, "delay_ms": 3_600_000}] * 3)
    asked = []
    view.page.on("request", lambda request: asked.append("payload=true" in request.url) if "/messages?" in request.url else None)
    view.until("document.querySelectorAll('tbody [data-row]').length === 7 && !document.querySelector('[data-label=Payload]')")
    asked.clear()
    view.page.wait_for_event("request", lambda request: "/messages?" in request.url)
    assert not any(asked), asked
    view.check()


def deletes_no_more_than_was_shown(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "deletes", [{"payload": 1}] * 3)
    api.kill("deletes", ["gone for good"] * 3)
    view = world.view().open("#/dead?filter=gone%20for%20good")
    view.page.click("[aria-label='More for gone for good']")
    view.page.click("button:has-text('Delete…'):visible")
    view.page.locator("dialog button:has-text('Delete 3 messages')").wait_for()
    batch(api, "deletes", [{"payload": 1}] * 40)
    api.kill("deletes", ["gone for good"] * 40)
    view.page.click("dialog button:has-text('Delete 3 messages')")
    view.see("It is 43 now, not 3. Look again before deleting.")
    assert api("GET", "/topics/deletes")["counts"]["dead"] == 43
    view.check()


def selects_only_what_is_on_the_list(world):
    server, _ = world.open
    batch(Api(server), "selects", [{"payload": {"n": n}, "delay_ms": 90_000 + n} for n in range(70)])
    view = world.view().open("#/topics/selects?state=delayed")
    view.page.locator("tbody input[type=checkbox]").nth(40).click()
    view.see("1 selected")
    view.page.click("footer button:has-text('Next')")
    view.until("document.querySelectorAll('tbody [data-open]').length === 20")
    # A range begins where its first message is on the list.
    view.page.locator("tbody input[type=checkbox]").nth(3).click(modifiers=["Shift"])
    view.see("2 selected")
    view.page.evaluate("location.hash = '#/topics/selects?state=delayed&q=payload.$.n:<5'")
    view.until("document.querySelectorAll('tbody [data-open]').length === 5")
    view.until("!document.querySelector('.selection')")
    view.check()


def asks_nothing_while_it_is_stopped(world):
    view = world.view().open("#/")
    view.press("R")
    view.see("Refreshing is stopped")
    asked = []
    view.page.on("request", lambda request: asked.append(request.url))
    view.page.wait_for_timeout(3000)
    assert not asked, asked
    with view.page.expect_request("**/*"):
        view.press("R")
    view.until("!document.querySelector('.banner.quiet')")
    view.check()


def shows_new_messages_without_a_reload(world):
    server, _ = world.open
    view = world.view().open("#/?filter=appears")
    Api(server)("POST", "/topics/appears/messages", {"payload": 1})
    view.page.wait_for_selector("tbody [data-open]:has-text('appears')")
    view.check()


def switches_theme_and_remembers_it(world):
    view = world.view().open("#/")
    view.press("t")
    view.until("document.documentElement.dataset.theme === 'dark'")
    view.page.reload()
    view.page.wait_for_selector("main h1")
    view.until("document.documentElement.dataset.theme === 'dark'")
    view.check()


def goes_everywhere_by_keyboard(world):
    view = world.view().open("#/")
    for key, title in {"t": "Topics", "d": "Dead letters", "c": "Callbacks", "s": "Schedules", "p": "Publish", "i": "Instances", "o": "Overview"}.items():
        view.press("g", key)
        view.page.wait_for_selector(f"h1:has-text('{title}')")
    view.press("?")
    view.page.wait_for_selector("dialog[open] h2:has-text('Keyboard')")
    view.axe()
    view.press("Escape")
    view.until("!document.querySelector('dialog')")
    view.check()


def opens_row_actions_by_keyboard(world):
    view = world.view().open("#/?filter=emails")
    view.press("j", ".")
    view.page.wait_for_selector(".popover:popover-open")
    view.until("document.activeElement.closest('.popover') !== null")
    view.axe()
    view.press("Escape")
    view.until("!document.querySelector('.popover:popover-open')")
    view.check()


def keeps_its_state_in_the_link(world):
    view = world.view().open("#/?filter=ema&sort=dead")
    assert view.page.locator("tbody [data-row]").count() == 1
    assert view.page.locator("select").first.input_value() == "dead"
    view.check()
