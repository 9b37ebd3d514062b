"""Scenarios of payloads, names and times: they are shown as they are, and exported as they came."""

import json

from seed import Api


def shows_payloads_byte_for_byte(world):
    server, ids = world.open
    view = world.view().open(f"#/messages/{ids['exact']}")
    view.see("9007199254740993", "1E400")
    assert view.page.locator(".tree .leaf:has-text('\"twice\"')").count() == 2
    view.page.click("button:has-text('Raw')")
    raw = view.page.locator("[aria-label='Payload as text']").inner_text()
    assert '"big": 9007199254740993, "huge": 1E400, "twice": 1, "twice": 2, "note": "a \\u0000 b"' in raw, raw
    view.page.click("button:has-text('Hex')")
    view.see("7b 22 6f 72 64 65 72 22")
    view.check()


def decodes_escapes_in_the_tree_and_not_in_raw(world):
    server, _ = world.open
    text = r'{"\u674e": "\u674e\ud83d\ude80 \\u674e \u0022\u202e\u0000\ud800\n"}'
    made = Api(server)("POST", "/topics/escapes/messages", raw=f'{{"payload": {text}}}'.encode())
    view = world.view().open(f"#/messages/{made['id']}")
    assert view.page.locator(".tree .leaf").inner_text() == r'"李": "李🚀 \\u674e \u0022\u202e\u0000\ud800\n"'
    view.page.click("button:has-text('Raw')")
    assert view.page.locator("[aria-label='Payload as text']").inner_text() == text
    view.check()


def names_the_zone_of_times_and_cuts_long_names(world):
    server, _ = world.open
    api = Api(server)
    topic = "long-" + "x" * 120
    made = api("POST", f"/topics/{topic}/messages", {"payload": 1, "delay_ms": 86_400_000, "key": "k" * 200})
    view = world.view(timezone_id="America/New_York").open(f"#/messages/{made['id']}")
    view.see(" EST")
    view.page.click("button[title='America/New_York']")
    view.see(" UTC")
    for place, name in (("#/topics?filter=long-", topic), (f"#/topics/{topic}", "k" * 200)):
        view.open(place)
        cut = view.page.locator(f"tbody .cut[title='{name}']")
        assert cut.evaluate("(cut) => cut.scrollWidth > cut.clientWidth && cut.getBoundingClientRect().width < 400")
    view.check()


def shows_binary_payloads_in_hexadecimal(world):
    import base64

    server, _ = world.open
    data = base64.b64encode(bytes(range(256)) * 64).decode()
    made = Api(server)("POST", "/topics/binary/messages", {"payload_base64": data, "content_type": "image/png"})
    view = world.view().open(f"#/messages/{made['id']}")
    view.see("image/png", "16.0 KiB", "000000  00 01 02 03")
    view.check()


def shows_a_payload_of_a_megabyte(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/large", {"max_payload_bytes": 1_048_576})
    payload = {"rows": [{"n": number, "text": "x" * 80} for number in range(9000)]}
    made = api("POST", "/topics/large/messages", {"payload": payload})
    view = world.view().open(f"#/messages/{made['id']}")
    view.see("9,000 items", "Show more of 9000")
    view.page.click("button:has-text('Raw')")
    view.page.click("button:has-text('Show all')")
    assert view.page.locator("[aria-label='Payload as text']").text_content() == json.dumps(payload)
    view.check()


def exports_every_message_as_it_was_published(world):
    server, _ = world.open
    api = Api(server)
    for number in range(3):
        api("POST", "/topics/exports/messages", raw=b'{"payload": {"big":\n 9007199254740993}, "delay_ms": 3600000}')
    view = world.view().open("#/topics/exports")
    with view.page.expect_download() as download:
        view.page.click("[aria-label='Actions on the list']")
        view.page.click(".popover:popover-open button:has-text('Export NDJSON')")
    lines = open(download.value.path()).read().splitlines()
    assert len(lines) == 3 and all("9007199254740993" in line and json.loads(line)["topic"] == "exports" for line in lines), lines
    view.check()
