"""Scenarios of a person who changes something: moves, redrives, deletes, pauses, publishes, edits."""

import json

from seed import Api, batch, receiver


def redrives_all_timeouts(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "timeouts", [{"payload": number} for number in range(34)])
    api.kill("timeouts", [f"timeout after {number} ms" for number in range(30)] + ["declined"] * 4)
    view = world.view().open("#/")
    view.page.click("nav a:has-text('Dead letters')")
    view.page.click("tr:has-text('timeouts'):has-text('timeout after') button:has-text('Redrive')")
    view.page.click("dialog button:has-text('Redrive 10 first')")
    view.see("10 messages redriven")
    view.page.click("button:has-text('Redrive the other 20')")
    view.page.click("dialog button:has-text('Redrive 20 messages')")
    view.see("20 messages more redriven, due over 10m")
    assert view.clicks() <= 5, view.clicks()
    counts = api("GET", "/topics/timeouts")["counts"]
    assert (counts["dead"], counts["ready"] + counts["delayed"]) == (4, 30), counts
    view.check()


def _hours_until(instant):
    from datetime import datetime, timezone

    return (datetime.fromisoformat(instant.replace("Z", "+00:00")) - datetime.now(timezone.utc)).total_seconds() / 3600


def moves_a_reminder(world):
    server, _ = world.open
    api = Api(server)
    made = api("POST", "/topics/reminders/messages", {"payload": 1, "delay_ms": 86_400_000, "key": "move-me"})
    view = world.view().open("#/")
    view.page.click("tbody a:has-text('reminders')")
    view.page.wait_for_selector("[aria-label='Search delayed messages']")
    view.press("f")
    view.page.keyboard.type("key:move-me")
    view.until("document.querySelectorAll('tbody [data-open]').length === 1")
    view.page.click("tr:has-text('move-me') [data-open]")
    view.page.click("button:has-text('Reschedule')")
    view.page.fill("dialog input", "2h 30m")
    view.page.click("dialog button:has-text('Reschedule')")
    view.see("The message is rescheduled", "in 2h")
    due = api("GET", f"/messages/{made['id']}")["due_at"]
    assert 2.4 < _hours_until(due) < 2.6, due
    assert view.clicks() <= 5, view.clicks()
    view.check()


def stops_a_bad_host(world):
    server, _ = world.open
    api = Api(server)
    bad = receiver()
    host = bad.removeprefix("http://")
    for _ in range(3):
        api("POST", "/callbacks", {"url": f"{bad}/broken", "backoff": {"kind": "fixed", "base_ms": 600_000}})
    view = world.view().open("#/")
    view.page.click("nav a:has-text('Callbacks')")
    row = view.page.locator(f"[aria-label='Hosts'] tr:has-text('{host}')")
    row.locator(":text('answered 500')").wait_for(timeout=30_000)
    row.locator("button:has-text('Pause')").click()
    row.locator(":text('paused')").wait_for()
    assert view.clicks() <= 5, view.clicks()
    assert next(item for item in api("GET", "/callbacks/hosts")["items"] if item["host"] == host)["paused"]
    row.locator("button:has-text('Resume')").click()
    row.locator("button:has-text('Pause')").wait_for()
    view.check()


def runs_a_delayed_message_now(world):
    server, _ = world.open
    api = Api(server)
    made = api("POST", "/topics/runs/messages", {"payload": 1, "delay_ms": 86_400_000})
    view = world.view().open(f"#/messages/{made['id']}")
    view.page.click("button:has-text('Run now')")
    view.see("The message is due now")
    assert api("GET", f"/messages/{made['id']}")["state"] == "ready"
    view.check()


def redrives_dead_letters_from_their_screen(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "many-dead", [{"payload": number} for number in range(30)])
    api.kill("many-dead", ["out of paper"] * 30)
    view = world.view().open("#/dead?filter=many-dead")
    view.page.click("tr:has-text('many-dead') button:has-text('Redrive')")
    view.page.click("dialog button:has-text('Redrive 10 first')")
    view.see("10 messages redriven", "Redrive the other 20")
    view.page.click("button:has-text('Redrive the other 20')")
    view.page.click("dialog button:has-text('Redrive 20 messages')")
    view.see("20 messages more redriven, due over 10m")
    counts = api("GET", "/topics/many-dead")["counts"]
    assert counts["dead"] == 0 and counts["ready"] >= 10, counts
    view.check()


def deletes_selected_messages_after_a_question(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "deletes", [{"payload": number, "delay_ms": 3_600_000} for number in range(4)])
    view = world.view().open("#/topics/deletes")
    boxes = view.page.locator("tbody input[type=checkbox]")
    boxes.nth(0).click()
    boxes.nth(2).click(modifiers=["Shift"])
    view.see("3 selected")
    view.page.click(".selection button:has-text('Delete')")
    view.page.click("dialog button:has-text('Delete 3 messages')")
    view.see("3 messages deleted")
    assert api("GET", "/topics/deletes")["counts"]["delayed"] == 1
    view.check()


def purges_only_what_was_typed(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "purges", [{"payload": number} for number in range(5)])
    api.kill("purges", ["timeout"] * 2)
    batch(api, "purges", [{"payload": 1, "delay_ms": 3_600_000}])
    view = world.view().open("#/topics/purges")
    view.page.click("[aria-label='More actions'][data-menu]")
    view.page.click(".popover:popover-open button:has-text('Purge')")
    view.page.wait_for_selector("dialog[open] button[type=submit]")
    view.page.click("dialog button[type=submit]", force=True)
    assert api("GET", "/topics/purges")["counts"]["ready"] == 3, "the name was not typed"
    view.page.fill("dialog input.mono", "purges")
    view.page.click("dialog button[type=submit]", force=True)
    counts = api("GET", "/topics/purges")["counts"]
    assert (counts["ready"], counts["delayed"], counts["dead"]) == (3, 1, 2), "no state was chosen"
    view.page.check("dialog label:has-text('Dead: 2')")
    view.page.check("dialog label:has-text('Ready: 3')")
    view.page.uncheck("dialog label:has-text('Dead: 2')")
    view.axe()
    view.page.click("dialog button:has-text('Purge 3 messages')")
    view.see("3 messages of purges deleted")
    counts = api("GET", "/topics/purges")["counts"]
    assert (counts["ready"], counts["delayed"], counts["dead"]) == (0, 1, 2), counts
    view.check()


def pauses_and_resumes_a_topic_from_the_overview(world):
    server, _ = world.open
    api = Api(server)
    api("POST", "/topics/pauses/messages", {"payload": 1})
    view = world.view().open("#/?filter=pauses")
    for label, expected in (("Pause", True), ("Resume", False)):
        view.page.click("[aria-label='Actions for pauses']")
        view.page.click(f".popover:popover-open button:has-text('{label}')")
        view.until("(paused) => Boolean(document.querySelector('tbody .badge.warn')) === paused", expected)
        assert api("GET", "/topics/pauses")["paused"] is expected
    view.check()


def changes_settings_after_showing_the_difference(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/settings", {"max_attempts": 4})
    view = world.view().open("#/topics/settings?view=settings")
    view.page.get_by_label("Attempts", exact=False).first.fill("7")
    view.page.click("button:has-text('Review 1 change')")
    assert view.page.locator("dialog[open] .diff tbody tr").inner_text().split() == ["max_attempts", "4", "7"]
    view.page.click("dialog button:has-text('Save 1 change')")
    view.see("The settings of settings are saved")
    # The form begins anew with what was saved.
    view.until("(revision) => document.body.innerText.includes(`revision ${revision}`)", api("GET", "/topics/settings")["revision"])
    view.page.get_by_label("What it gets", exact=False).select_option("raw")
    view.page.click("button:has-text('Review 1 change')")
    assert view.page.locator("dialog[open] .diff tbody tr").inner_text().split() == ["dead_form", "letter", "raw"]
    view.page.click("dialog button:has-text('Save 1 change')")
    view.until("document.querySelector('dialog') === null")
    config = api("GET", "/topics/settings")["config"]
    assert (config["max_attempts"], config["dead_form"]) == (7, "raw"), config
    view.check()


def refuses_settings_that_somebody_else_changed(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/races", {"max_attempts": 4})
    view = world.view().open("#/topics/races?view=settings")
    view.press("R")
    view.page.get_by_label("Attempts", exact=False).first.fill("7")
    api("PATCH", "/topics/races", {"max_attempts": 5})
    view.page.click("button:has-text('Review 1 change')")
    view.page.click("dialog button:has-text('Save 1 change')")
    view.see("The settings were changed meanwhile")
    assert api("GET", "/topics/races")["config"]["max_attempts"] == 5
    view.check()


def publishes_what_the_curl_line_says(world):
    server, _ = world.open
    view = world.view().open("#/publish?topic=by-hand")
    view.page.locator("textarea").first.fill('{"order": 9007199254740993, "order": "it\'s"}')
    view.page.get_by_role("textbox", name="Delay").fill("1h")
    view.page.get_by_role("textbox", name="Key").fill("order/7")
    view.see("--json '{\"payload\": {\"order\": 9007199254740993, \"order\": \"it'\\''s\"}, \"delay_ms\": 3600000, \"key\": \"order/7\"}'")
    for language, line in {
        "Python": "client.publish(\"by-hand\", {\"order\": 9007199254740993, \"order\": \"it's\"}, delay=3600, key=\"order/7\")",
        "TypeScript": "delayMs: 3600000, key: \"order/7\" });",
        "Go": "dueq.Delay(3600000 * time.Millisecond), dueq.Key(\"order/7\"))",
    }.items():
        view.page.click(f"[aria-label=Language] button:has-text('{language}')")
        view.see(line)
    view.page.click("button:has-text('Publish')")
    view.see("Published:")
    view.page.click(".result a")
    view.see("by-hand", "order/7")
    view.page.click("button:has-text('Raw')")
    view.see('{"order": 9007199254740993, "order": "it\'s"}')
    view.check()


def refuses_to_publish_what_is_not_json(world):
    view = world.view().open("#/publish?topic=by-hand")
    view.page.locator("textarea").first.fill("{order: 1}")
    assert view.page.locator("button[type=submit]").get_attribute("aria-disabled") == "true"
    view.check()


def makes_edits_and_deletes_a_schedule(world):
    server, _ = world.open
    api = Api(server)
    view = world.view().open("#/schedules/%2B")
    view.page.get_by_label("Name", exact=True).fill("made-here")
    view.page.get_by_label("Topic", exact=True).fill("ticks")
    view.page.get_by_label("Cron", exact=False).last.fill("*/15 8-18 * * MON-FRI")
    view.see("Every 15 minutes from 08:00 to 18:59 on Monday to Friday in UTC")
    assert view.page.locator(".ticks li").count() == 5
    view.page.click("button:has-text('Save')")
    view.page.wait_for_selector("h1:has-text('made-here')")
    assert api("GET", "/schedules/made-here")["cron"] == "*/15 8-18 * * MON-FRI"
    view.page.click("button:has-text('Run now')")
    view.see("made-here published its message")
    view.page.click("button:has-text('Edit')")
    view.page.locator("textarea").last.fill('{"payload": {"big": 9007199254740993}}')
    view.page.click("button:has-text('Save')")
    view.see("made-here is saved")
    view.page.click("[aria-label='Delete the schedule']")
    view.page.fill("dialog input", "made-here")
    view.press("Enter")
    view.page.wait_for_selector("h1:has-text('Schedules')")
    assert "made-here" not in [item["name"] for item in api("GET", "/schedules")["items"]]
    view.check()


def lists_ticks_that_published_nothing(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/full", {"max_messages": 1})
    api("POST", "/topics/full/messages", {"payload": 1})
    api("PUT", "/schedules/often", {"every_ms": 1000, "topic": "full", "message": {"payload": 1}})
    view = world.view().open("#/schedules/often")
    view.see("Ticks that published nothing")
    view.page.wait_for_selector(".card:has-text('Refused, or missed') .ticks li")
    api("POST", "/schedules/often/pause")
    missed = api("GET", "/schedules/often")["missed_ticks"]
    view.until("(many) => document.querySelectorAll('.ticks li').length === many", len(missed))
    view.axe()
    view.open("#/schedules")
    view.page.wait_for_selector(f"tr:has-text('often') .badge:has-text('{len(missed)} missed')")
    api("DELETE", "/schedules/often")
    view.check()


def tells_the_same_ticks_as_the_server(world):
    server, _ = world.open
    api = Api(server)
    view = world.view()
    view.open("#/schedules/%2B")
    for cron, zone in [
        ("*/7 * * * *", "UTC"),
        ("30 2 * * *", "Europe/Berlin"),
        ("0 9 1,15 * MON", "America/New_York"),
        ("15 4 29 2 *", "Asia/Kolkata"),
        ("5 0 0 * JAN SUN", "Pacific/Auckland"),
        ("0 9 * * MON#1", "America/Vancouver"),
        ("30 23 L * *", "America/Nuuk"),
    ]:
        view.page.get_by_label("Cron", exact=False).last.fill(cron)
        view.page.get_by_label("Time zone", exact=True).fill(zone)
        expected = api("PUT", "/schedules/compare", {"cron": cron, "timezone": zone, "topic": "ticks", "message": {"payload": 1}})["next_at"]
        told = view.page.evaluate(
            """([instant, timeZone]) => [new Intl.DateTimeFormat("en-CA", {timeZone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23"}).format(new Date(instant)).replace(", ", " ")]""",
            [expected, zone],
        )[0]
        view.page.wait_for_selector(f".ticks li:first-child b:has-text('{told}')")
    api("DELETE", "/schedules/compare")
    for label, text in [("Cron", "0 25 * * *"), ("Time zone", "Europe/Nowhere")]:
        view.page.get_by_label(label, exact=False).last.fill(text)
        reason = view.page.locator(".field .error").last
        reason.wait_for()
        field = label.lower().replace(" ", "")
        body = {"topic": "ticks", "message": {"payload": 1}, "cron": "0 9 * * *", field: text}
        try:
            refused = api("PUT", "/schedules/compare", body)
        except AssertionError as error:
            refused = str(error)
        assert f'"reason":{json.dumps(reason.inner_text())}' in refused, (refused, reason.inner_text())
        view.page.get_by_label("Cron", exact=False).last.fill("0 9 * * *")
        view.page.get_by_label("Time zone", exact=False).last.fill("UTC")
        view.page.wait_for_selector(".field .error", state="detached")
    view.check()


def duplicates_a_message(world):
    _, ids = world.open
    view = world.view().open(f"#/messages/{ids['exact']}")
    view.until("document.querySelector('.tree')")
    view.page.click("[aria-label='More actions'][data-menu]")
    view.page.click(".popover:popover-open button:has-text('Duplicate')")
    view.page.wait_for_selector("h1:has-text('Publish')")
    assert "9007199254740993" in view.page.locator("textarea").first.input_value()
    view.check()


def mends_and_redrives_a_dead_message(world):
    server, _ = world.open
    api = Api(server)
    api("POST", "/topics/mends/messages", {"payload": {"a": 1}})
    dead = api.kill("mends", ["KeyError: 'tenant'"])[0]
    view = world.view().open(f"#/messages/{dead}")
    view.see("KeyError: 'tenant'", "Last error")
    view.until("document.querySelector('.tree')")
    view.page.click("[aria-label='More actions'][data-menu]")
    view.page.click(".popover:popover-open button:has-text('Edit')")
    view.page.fill("dialog textarea", '{"a": 1, "tenant": 42}')
    view.page.click("dialog button:has-text('Save and redrive')")
    view.see("The message is mended and redriven")
    message = api("GET", f"/messages/{dead}")
    assert (message["state"], message["payload"]) == ("ready", {"a": 1, "tenant": 42})
    view.check()


def redrives_a_reason_in_all_topics_at_once(world):
    server, _ = world.open
    api = Api(server)
    for topic, number in (("reasons-one", 14), ("reasons-two", 6)):
        batch(api, topic, [{"payload": 1}] * number)
        api.kill(topic, [f"no route to host {number}"] * number)
    view = world.view()
    # The pointer is there before the reasons are.
    held, passes = [], False
    view.page.route("**/dead/reasons", lambda route: route.continue_() if passes else held.append(route))
    view.open("#/dead").see("All reasons", "reasons-one", "reasons-two")
    view.page.hover("tbody tr")
    passes = True
    for route in list(held):
        route.continue_()
    row = view.page.locator("tr:has-text('no route to host *')")
    row.wait_for()
    assert row.locator("td").nth(0).inner_text() == "20"
    assert row.locator("td").nth(1).inner_text().split() == ["reasons-one", "14", "reasons-two", "6"]
    view.axe()
    row.locator("button:has-text('Redrive')").first.click()
    view.see("Redrive: 2 topics", "reasons-one: 14, reasons-two: 6")
    view.page.click("dialog button:has-text('Redrive 10 first')")
    view.page.locator("button:has-text('Redrive the other 10')").wait_for()
    # Each topic has a share in those that go first.
    assert [api("GET", f"/topics/{topic}")["counts"]["dead"] for topic in ("reasons-one", "reasons-two")] == [9, 1]
    view.page.click("button:has-text('Redrive the other 10')")
    view.page.fill("dialog input", "0s")
    view.page.click("dialog button:has-text('Redrive 10 messages')")
    view.see("10 messages more redriven")
    view.page.click(".result [aria-label=Dismiss]")
    view.until("!document.querySelector('.result')")
    counts = [api("GET", f"/topics/{topic}")["counts"] for topic in ("reasons-one", "reasons-two")]
    assert [(count["dead"], count["ready"]) for count in counts] == [(0, 14), (0, 6)], counts
    view.check()
