#!/usr/bin/env python3
"""Order events as a shop would publish them: JSON of about 100 bytes to 8 KiB, the same for the same seed.

They are spelled in many ways on purpose (whitespace, escapes, numbers such as 12.50 or 2^64): a payload must come
back byte for byte, not as what some parser made of it. Run by itself it prints a few: `orders.py [seed] [count]`.
"""

import json
import random
import re
import sys

NAMES = ["Ada Lovelace", "José Álvarez", "Søren Ægir", "Zoë Müller-Lüdenscheidt", "王小明", "さくら 田中",
         "محمد عبد الله", "Οδυσσέας", "Nguyễn Thị Mai", "O'Brien \"Rob\"", "Δ & <b>Sons</b>", "👩‍🚀 Sally"]
STREETS = ["1 Infinite Loop", "Hauptstraße 7", "Rue de l'Église 12 bis", "中山北路二段 48 巷", "Calle Ñandú 3", "Main St. #42"]
CITIES = [("Berlin", "DE"), ("Kraków", "PL"), ("São Paulo", "BR"), ("臺北", "TW"), ("القاهرة", "EG"), ("Reykjavík", "IS")]
GOODS = ["Coffee, dark roast ☕", "Mug „Käfer“", "USB-C cable 2 m", "Notebook A5\tlined", "T-shirt 👕 XL", "Chili 🌶️ sauce",
         "Back\\slash & sons' tape", "Lamp / shade", "Socks (3 pairs)", "Pen\u2028refill"]
NOTES = ["", "Please ring twice 🔔🔔", "leave at the door\nthank you", "עברית ועברית", "null", "{\"not\": \"json\"}",
         "a very long story " * 12, "\u0000 and \u001f are fine too", "🇩🇪🏴‍☠️👨‍👩‍👧‍👦"]
KINDS = ["order.placed", "order.paid", "order.packed", "order.shipped", "order.cancelled", "cart.abandoned"]


def literal(text: str) -> str:
    """Stands in for a number that is to be spelled exactly so; `spell` takes the marks off."""
    return f"§{text}§"


def money(rng: random.Random) -> str:
    return literal(rng.choice(["{:.2f}", "{:.1f}", "{:.2e}"]).format(rng.uniform(0.5, 900)))


def address(rng: random.Random) -> dict:
    city, country = rng.choice(CITIES)
    return {"name": rng.choice(NAMES), "street": rng.choice(STREETS), "zip": f"{rng.randrange(100000):05}",
            "city": city, "country": country}


def item(rng: random.Random) -> dict:
    return {"sku": f"SKU-{rng.randrange(10**6):06}", "title": rng.choice(GOODS), "quantity": rng.randint(1, 9),
            "price": money(rng), "tags": rng.sample(["new", "sale", "fragile", "🎁", "été"], rng.randint(0, 3))}


def spell(event: dict, rng: random.Random) -> bytes:
    """One of the ways in which JSON libraries write the event."""
    text = json.dumps(
        event,
        ensure_ascii=rng.random() < 0.3,
        indent=rng.choice([None, None, None, 2]),
        separators=rng.choice([(",", ":"), (", ", ": "), (" ,", " :")]),
    )
    return re.sub(r'"(?:§|\\u00a7)([^"§\\]*)(?:§|\\u00a7)"', r"\1", text).encode()


def order(rng: random.Random) -> bytes:
    """One event. Sizes are spread evenly over their logarithm."""
    wanted = int(100 * 81.92 ** rng.random())
    event = {"event": rng.choice(KINDS), "order_id": f"O-{rng.randrange(10**9):09}", "total": money(rng)}
    if wanted > 150:
        event["customer"] = {"id": literal(str(rng.choice([rng.randrange(10**6), 2**53 + 1, 2**64]))),
                             "name": rng.choice(NAMES), "vip": rng.random() < 0.1, "referrer": None}
    if wanted > 400:
        event |= {"shipping": address(rng), "note": rng.choice(NOTES), "discount": literal(rng.choice(["-0", "0.0", "1E-2"]))}
    text = spell(event, rng)
    items = event.setdefault("items", []) if wanted > 600 else None
    while items is not None and len(text) < wanted:
        spare = max(1, (wanted - len(text)) // 180)
        items.extend(item(rng) for _ in range(spare))
        text = spell(event, rng)
    if len(text) < 100:
        event["trace"] = "".join(rng.choices("0123456789abcdef", k=100 - len(text)))
        text = spell(event, rng)
    return text if len(text) <= 8192 else order(rng)


def orders(seed: int, count: int):
    """Pairs of a delay in ms (0 to 60 s; one in twenty none at all) and an event's bytes."""
    rng = random.Random(seed)
    for _ in range(count):
        delay_ms = 0 if rng.random() < 0.05 else rng.randint(0, 60_000)
        yield delay_ms, order(rng)


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    for delay, event in orders(*(arguments + [1, 3][len(arguments):])):
        print(f"# due {delay} ms after it is published, {len(event)} bytes\n{event.decode()}")
