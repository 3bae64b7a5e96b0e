# SPDX-License-Identifier: Apache-2.0
"""Turns of the generated chats that call a tool, and the definitions of the tools."""

import json

import world
from turns import Turn, article, choose


def definition(name, description, /, **parameters):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": {k: {"type": v} for k, v in parameters.items()}, "required": list(parameters)}}}


WEATHER = definition("get_weather", "Get the weather in a city", city="string")
TIDE = definition("get_tide", "Get the tide at a place on a day", place="string", day="string")
SHIP = definition("find_ship", "Find a ship by its name", name="string")
ADD = definition("add", "Add two numbers", a="integer", b="integer")
PRICE = definition("get_price", "Get the price of an item", item="string")
OWN = (WEATHER, TIDE, SHIP, ADD, PRICE)


SYLLABLES = """ba be bo da de di do fa fe ga go ha he ka ke ki ko la le li lo ma me mi mo na ne ni no pa pe ra re ri ro sa se
si so ta te ti to va ve vi vo bar den dor fen gar hal ker lan mar nor par ran sel tor ven wal""".split()


def named(rng, names, invented=0.35):
    """One of names, or a name made of syllables, which the model has to copy piece by piece."""
    if rng.random() >= invented:
        return choose(rng, names)
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randrange(2, 4))).capitalize()


def report(rng, city):
    sky, degrees = choose(rng, world.SKIES), rng.randrange(-5, 36)
    return json.dumps({"city": city, "sky": sky, "temperature_c": degrees}), f"it is {sky} and {degrees} degrees"


def weather(rng, last):
    city = named(rng, world.CITIES)
    wording = rng.randrange(6)
    question = ("What is the weather in {}?", "How is the weather in {}?", "What is the weather like in {}?",
                "Tell me the weather in {}.", "Is it raining in {}?", "What's the weather in {}?")[wording].format(city)
    response, text = report(rng, city)
    return Turn("tool", f"weather {city} {wording}", question, f"In {city} {text}.", tool=WEATHER,
                calls=(({"city": city}, response),))


def two_cities(rng, last):
    cities = [named(rng, world.CITIES[:30]), named(rng, world.CITIES[30:])]
    rng.shuffle(cities)
    reports = [report(rng, city) for city in cities]
    return Turn("two tool calls", f"weather {cities}", "What is the weather in {} and {}?".format(*cities),
                f"In {cities[0]} {reports[0][1]}. In {cities[1]} {reports[1][1]}.", tool=WEATHER,
                calls=tuple(({"city": c}, r[0]) for c, r in zip(cities, reports)))


def tide(rng, last):
    place, day = named(rng, world.TIDE_PLACES), choose(rng, world.DAYS)
    when = day if day in ("today", "tomorrow") else "on " + day
    high, low = f"{rng.randrange(24)}:{rng.randrange(0, 60, 5):02}", f"{rng.randrange(24)}:{rng.randrange(0, 60, 5):02}"
    wording = rng.randrange(3)
    question = ("When is high tide at {} {}?", "What is the tide at {} {}?", "Tell me the tide at {} {}.")[wording]
    return Turn("tool", f"tide {place} {day} {wording}", question.format(place, when),
                f"At {place} high tide is at {high} and low tide is at {low} {when}.", tool=TIDE,
                calls=(({"place": place, "day": day}, json.dumps({"high": high, "low": low})),))


def ship(rng, last):
    name = named(rng, list(world.SHIPS) + [p + c for p in ("Sea ", "Star of ") for c in world.CITIES])
    berth = world.SHIPS[name][2] if name in world.SHIPS else rng.randrange(9, 20)
    wording = rng.randrange(3)
    question = ("Find the ship {}.", "Where is the ship {}?", "Look up the ship {}.")[wording].format(name)
    return Turn("tool", f"ship {name} {wording}", question, f"The {name} is at berth {berth}.", tool=SHIP,
                calls=(({"name": name}, json.dumps({"name": name, "berth": berth})),))


def add(rng, last):
    a, b = rng.randrange(200), rng.randrange(200)
    wording = rng.randrange(3)
    question = ("What is {} plus {}?", "Add {} and {}.", "How much is {} + {}?")[wording].format(a, b)
    return Turn("tool", f"add {a} {b}", question, f"{a} plus {b} is {a + b}.", tool=ADD,
                calls=(({"a": a, "b": b}, json.dumps({"result": a + b})),))


def price(rng, last):
    item = choose(rng, list(world.ITEMS) + world.PARAMETERS["product"] + world.PARAMETERS["fruit"])
    pounds = world.ITEMS[item][0] if item in world.ITEMS else rng.randrange(1, 100)
    wording = rng.randrange(3)
    question = ("How much is the {}?", "What does the {} cost?", "What is the price of the {}?")[wording].format(item)
    return Turn("tool", f"price {item} {wording}", question, f"The {item} costs {pounds} pounds.", tool=PRICE,
                calls=(({"item": item}, json.dumps({"item": item, "price": pounds})),))


def other(rng, last):
    """A tool with a name made of a verb and a noun: the call has to be copied from its definition and the question."""
    noun, parameter = choose(rng, world.NOUNS), choose(rng, world.PARAMETERS)
    value, result = named(rng, world.PARAMETERS[parameter]), choose(rng, world.VALUES)
    name = rng.choice(("{v}_{n}", "{v}_{n}", "{p}_{n}", "{n}")).format(v=choose(rng, world.VERBS), n=noun, p=parameter)
    of = value if value[0].isupper() else f"the {parameter} {value}"
    arguments, when = {parameter: value}, ""
    if rng.random() < 0.2:
        day = choose(rng, world.DAYS)
        arguments["day"], when = day, " " + day if day in ("today", "tomorrow") else " on " + day
    wording = rng.randrange(5)
    question = ("What is the {n} of {v}{w}?", "Tell me the {n} of {v}{w}.", "Look up the {n} of {v}{w}.",
                "Give me the {n} of {v}{w}.", "I need the {n} of {v}{w}.")[wording].format(n=noun, v=of, w=when)
    described = rng.choice(("Get the {n} of {p}", "The {n} of {p}", "Look up the {n} of {p}")).format(
        n=noun, p=f"{article(parameter)} {parameter}")
    response = {noun: int(result) if result.isdigit() else result}
    return Turn("unseen tool", f"other {noun} {parameter} {value}", question, f"The {noun} of {of} is {result}{when}.",
                tool=definition(name, described, **dict.fromkeys(arguments, "string")),
                calls=((arguments, json.dumps(response)),))


def with_distractors(rng, tools):
    """tools with up to two that are not needed, in any order, no name twice."""
    tools = list(tools)
    for _ in range(rng.choices((0, 1, 2), (4, 4, 2))[0]):
        extra = choose(rng, OWN) if rng.random() < 0.5 else other(rng, None).tool
        if all(t["function"]["name"] != extra["function"]["name"] for t in tools):
            tools.append(extra)
    rng.shuffle(tools)
    return tools or [choose(rng, OWN)]
