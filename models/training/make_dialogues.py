# SPDX-License-Identifier: Apache-2.0
"""Generates the demo model's chats and pages about its small world (world.py), the same for the same seed.

A turn has a key: what is asked, about what, in which words. Keys are split by hash: a twelfth is held out, so that no
training text has those questions. Chats are rendered with chat_template.jinja, as transformers and Dunlin render it.

Writes dialogues_train.jsonl and dialogues_heldout.jsonl (text of a chat or page), and questions.jsonl (held-out single
turns with the expected answer, for evaluate_chat.py).

Usage: make_dialogues.py --work DIR [--chats 30000] [--pages 3000] [--seed 1]
"""

import argparse
import hashlib
import json
import pathlib
import random

import jinja2

import lookups
import world
from turns import Turn, choose

HELDOUT_SHARE = 12
QUESTIONS_PER_KIND = 60
BIRD_QUESTIONS = {
    "colour": (("What colour is the {n}?", "Which colour does the {n} have?", "Tell me the colour of the {n}.",
                "What colour is {it}?", "And its colour?"), "The {n} is {v}."),
    "length_cm": (("How long is the {n}?", "What is the length of the {n}?", "How big is the {n}?", "How long is {it}?",
                   "And how big is {it}?"), "The {n} is {v} cm long."),
    "food": (("What does the {n} eat?", "What does a {n} eat?", "Tell me what the {n} eats.", "What does {it} eat?",
              "And what does {it} eat?"), "The {n} eats {v}."),
    "home": (("Where does the {n} live?", "Where can I see the {n}?", "Where do I find a {n}?", "Where does {it} live?",
              "And where can I see {it}?"), "You can see the {n} at {v}."),
    "eggs": (("How many eggs does the {n} lay?", "How many eggs does a {n} lay?", "How many eggs are in the nest of a {n}?",
              "How many eggs does {it} lay?", "And how many eggs?"), "The {n} lays {v} {eggs}."),
}
SHIP_QUESTIONS = {
    "kind": (("What kind of ship is the {n}?", "What is the {n}?", "What sort of ship is the {n}?", "What kind of ship is {it}?",
              "And what kind of ship is {it}?"), "The {n} is a {v}."),
    "colour": (("What colour is the {n}?", "Which colour does the {n} have?", "Tell me the colour of the {n}.",
                "What colour is {it}?", "And its colour?"), "The {n} is {v}."),
    "berth": (("Where is the {n}?", "At which berth is the {n}?", "Where does the {n} lie?", "Where is {it}?",
               "And at which berth is {it}?"), "The {n} is at berth {v}."),
    "cargo": (("What does the {n} carry?", "What is the cargo of the {n}?", "Tell me what the {n} carries.",
               "What does {it} carry?", "And what does {it} carry?"), "The {n} carries {v}."),
    "crew": (("How many people are on the {n}?", "How large is the crew of the {n}?", "How many people work on the {n}?",
              "How large is its crew?", "And how large is its crew?"), "The {n} has a crew of {v}."),
}
PLACE_QUESTIONS = {
    "street": (("Where is the {n}?", "In which street is the {n}?", "How do I find the {n}?", "Where is {it}?",
                "And where is {it}?"), "The {n} is in {v}."),
    "opens": (("When does the {n} open?", "From when is the {n} open?", "At what time does the {n} open?",
               "When does {it} open?", "And when does {it} open?"), "The {n} opens at {v} o'clock."),
    "closes": (("When does the {n} close?", "Until when is the {n} open?", "At what time does the {n} close?",
                "When does {it} close?", "And when does {it} close?"), "The {n} closes at {v} o'clock."),
    "use": (("What can I do at the {n}?", "What is the {n} for?", "Why should I go to the {n}?", "What can I do there?",
             "And what is {it} for?"), "At the {n} you can {v}."),
}
ITEM_QUESTIONS = {
    "price": (("How much is the {n}?", "What does the {n} cost?", "What is the price of the {n}?", "How much is {it}?",
               "And what does {it} cost?"), "The {n} costs {v} pounds."),
    "colour": (("What colour is the {n}?", "Which colour does the {n} have?", "Tell me the colour of the {n}.",
                "What colour is {it}?", "And its colour?"), "The {n} is {v}."),
}
KINDS = {
    "bird": (world.BIRDS, world.BIRD_FIELDS, BIRD_QUESTIONS),
    "ship": (world.SHIPS, world.SHIP_FIELDS, SHIP_QUESTIONS),
    "place": (world.PLACES, world.PLACE_FIELDS + ("use",), PLACE_QUESTIONS),
    "item": (world.ITEMS, world.ITEM_FIELDS, ITEM_QUESTIONS),
}
KIND_WEIGHTS = (5, 4, 3, 2)


def pick_kind(rng):
    return rng.choices(list(KINDS), KIND_WEIGHTS)[0]


def sentence(kind, name, field):
    facts, fields, questions = KINDS[kind]
    value = facts[name][fields.index(field)]
    return questions[field][1].format(n=name, v=value, eggs="egg" if value == 1 else "eggs")


def fact(rng, last):
    """A question about one fact; with `it` for the subject of the turn before."""
    kind, name = last if last and rng.random() < 0.5 else (None, None)
    again = kind is not None
    kind = kind or pick_kind(rng)
    facts, fields, questions = KINDS[kind]
    name = name or choose(rng, facts)
    field = choose(rng, fields)
    wording = rng.randrange(3, 5) if again else rng.randrange(3)
    question = questions[field][0][wording].format(n=name, it="it")
    return Turn("fact", f"fact {kind} {name} {field} {wording}", question, sentence(kind, name, field), subject=(kind, name))


def describe(rng, last):
    kind = pick_kind(rng)
    facts, fields, _ = KINDS[kind]
    name = choose(rng, facts)
    wording = rng.randrange(4)
    question = ("Tell me about the {}.", "What do you know about the {}?", "Describe the {}.", "Tell me more about the {}.")
    used = fields[:3] if wording < 2 else fields
    text = sentence(kind, name, used[0]) + "".join(
        " " + sentence(kind, name, f).replace(f"The {name}", "It").replace(f"the {name}", "it") for f in used[1:])
    return Turn("fact", f"describe {name} {wording}", question[wording].format(name), text, subject=(kind, name))


def compare(rng, last):
    a, b = rng.sample(list(world.BIRDS), 2)
    first, second = world.BIRDS[a][1], world.BIRDS[b][1]
    word = rng.choice(("longer", "shorter"))
    yes = (first > second) == (word == "longer")
    text = f"{'Yes' if yes else 'No'}, the {a} is {first} cm long and the {b} is {second} cm long."
    return Turn("compare", f"compare {a} {b} {word}", f"Is the {a} {word} than the {b}?", text)


def reverse(rng, last):
    """From a property to the name."""
    if rng.random() < 0.5:
        name, (kind, colour, berth, cargo, _) = rng.choice(list(world.SHIPS.items()))
        what = rng.choice((f"is at berth {berth}", f"carries {cargo}", f"is {colour}"))
        return Turn("fact", f"reverse ship {what}", f"Which ship {what}?", f"The {name} {what}.", subject=("ship", name))
    colour = choose(rng, {b[0] for b in world.BIRDS.values()})
    names = [n for n, b in world.BIRDS.items() if b[0] == colour]
    text = ", ".join(f"the {n}" for n in names[:-1]) + (" and " if names[1:] else "") + f"the {names[-1]}"
    return Turn("fact", f"reverse bird {colour}", f"Which birds are {colour}?",
                f"{text[0].upper() + text[1:]} {'are' if names[1:] else 'is'} {colour}.")


def addition(rng, last):
    if rng.random() < 0.4:
        a, b = rng.sample(list(world.ITEMS), 2)
        x, y = world.ITEMS[a][0], world.ITEMS[b][0]
        return Turn("sum", f"sum {a} {b}", f"How much are the {a} and the {b} together?",
                    f"The {a} costs {x} pounds and the {b} costs {y} pounds, {x + y} pounds together.")
    a, b = rng.randrange(21), rng.randrange(21)
    wording = rng.randrange(3)
    question = ("What is {} plus {}?", "Add {} and {}.", "How much is {} + {}?")[wording].format(a, b)
    return Turn("sum", f"sum {a} {b}", question, f"{a} plus {b} is {a + b}.")


def small_talk(rng, last):
    kind = rng.randrange(6)
    who = ("Who are you?", "What are you?", "What is your name?", "Are you a person?")
    can = ("What can you do?", "How can you help me?", "What do you know?")
    town = ("Where are we?", "What is Wrenmouth?", "Tell me about Wrenmouth.", "Tell me about the town.")
    lists = (("Which ships are in the harbour?", "The " + ", the ".join(world.SHIPS) + "."),
             ("Which birds live here?", "The " + ", the ".join(world.BIRDS) + "."),
             ("What does the harbour shop sell?", "The harbour shop sells a " + ", a ".join(world.ITEMS) + "."))
    if kind == 0:
        pair = (choose(rng, world.GREETINGS), "Hello! How can I help you?")
    elif kind == 1:
        pair = (choose(rng, world.THANKS), "You are welcome.") if rng.random() < 0.7 else (
            choose(rng, world.FAREWELLS), "Goodbye, and fair winds!")
    elif kind == 2:
        pair = (choose(rng, who), world.IDENTITY)
    elif kind == 3:
        pair = (choose(rng, can), world.ABILITIES)
    elif kind == 4:
        pair = (choose(rng, town), "Wrenmouth is a small harbour town with a lighthouse, a museum and a fish market.")
    else:
        pair = rng.choice(lists)
    return Turn("small talk", "talk", *pair, always_train=True)


def outside(rng, last):
    values = [v for vs in world.PARAMETERS.values() for v in vs] + world.NOUNS
    form = choose(rng, world.OUTSIDE)
    question = form.format(x=choose(rng, values), y=choose(rng, values))
    return Turn("outside", "outside " + question, question, world.UNKNOWN)


def no_tool(rng, last):
    """Asked without tools for what only a tool knows."""
    turn = choose(rng, (lookups.weather, lookups.tide))(rng, last)
    return Turn("no tool", turn.key, turn.question, "I have no tool for that.")


def as_json(rng, last):
    """An answer in JSON with the fields that are asked for, in that order."""
    kind = pick_kind(rng)
    facts, fields, _ = KINDS[kind]
    fields = [f for f in fields if f != "use"]
    name = choose(rng, facts)
    wording = rng.randrange(5)
    used = fields[:2] if wording == 4 else rng.sample(fields, rng.randrange(1, min(4, len(fields) + 1)))
    keys = ["name"] + used if wording == 4 or rng.random() < 0.8 else used
    spoken = keys[0] if len(keys) == 1 else ", ".join(keys[:-1]) + " and " + keys[-1]
    question = ("Describe the {n} as JSON with {k}.", "Give me the {n} as JSON with {k}.", "The {n} as JSON: {k}.",
                "Answer in JSON with {k}: the {n}.", "Describe the {n} as JSON.")[wording].format(n=name, k=spoken)
    row = {"name": name} | {f: facts[name][fields.index(f)] for f in fields}
    return Turn("json", f"json {name} {sorted(keys)} {wording if wording == 4 else ''}", question,
                json.dumps({k: row[k] for k in keys}), subject=(kind, name))


def extract(rng, last):
    """JSON of a sentence that the user gives."""
    parameter = choose(rng, [p for p in world.PARAMETERS if p != "id"])
    value, nouns = choose(rng, world.PARAMETERS[parameter]), rng.sample(world.NOUNS, 2)
    row = {parameter: value} | {n: choose(rng, world.VALUES) for n in nouns[:rng.randrange(1, 3)]}
    row = {k: int(v) if v.isdigit() else v for k, v in row.items()}
    told = ", ".join(f"the {k} is {v}" for k, v in row.items())
    wording = rng.randrange(2)
    question = ("{} Write this as JSON.", "As JSON: {}")[wording].format(told[0].upper() + told[1:] + ".")
    return Turn("json", f"extract {value} {nouns}", question, json.dumps(row))


PLAIN = ((fact, 10), (describe, 2), (compare, 2), (reverse, 1.5), (addition, 2), (small_talk, 2), (outside, 1), (as_json, 4),
         (extract, 1))
NO_TOOL = ((no_tool, 0.7),)
TOOL_TURNS = ((lookups.weather, 3), (lookups.tide, 1.5), (lookups.ship, 1.5), (lookups.add, 1.5), (lookups.price, 1),
              (lookups.two_cities, 0.7), (lookups.other, 6))


def held_out(turn):
    number = int(hashlib.sha1(turn.key.encode()).hexdigest(), 16)
    return not turn.always_train and number % HELDOUT_SHARE == 0


def draw(rng, table, last, from_heldout):
    make = rng.choices([t[0] for t in table], [t[1] for t in table])[0]
    for _ in range(200):
        turn = make(rng, last)
        if turn.always_train or held_out(turn) == from_heldout:
            return turn
    return draw(rng, table, last, from_heldout)


def make_chat(rng, from_heldout):
    """Messages and tools of a chat of one to four turns."""
    messages, tools, last = [], [], None
    if rng.random() < 0.35:
        messages.append({"role": "system", "content": choose(rng, world.SYSTEMS)})
    with_tools = rng.random() < 0.5
    count = rng.choices((1, 2, 3), (6, 3, 1))[0] if with_tools else rng.choices((1, 2, 3, 4), (3, 3, 2, 1))[0]
    for _ in range(count):
        if with_tools and rng.random() < 0.8:
            turn = draw(rng, TOOL_TURNS, None, from_heldout)
            if any(t["function"]["name"] == turn.tool["function"]["name"] and t != turn.tool for t in tools):
                continue
            tools += [] if turn.tool in tools else [turn.tool]
        else:
            turn = draw(rng, PLAIN if with_tools else PLAIN + NO_TOOL, last, from_heldout)
        last = turn.subject
        messages += turn.messages()
    if with_tools:
        tools = lookups.with_distractors(rng, tools)
    return messages, tools


def make_page(rng):
    """Plain prose about the world, for completions."""
    kind = pick_kind(rng)
    facts, fields, _ = KINDS[kind]
    lines = []
    for name in rng.sample(list(facts), rng.randrange(1, 5)):
        used = rng.sample(fields, rng.randrange(2, len(fields) + 1))
        lines.append(" ".join([sentence(kind, name, used[0])] + [
            sentence(kind, name, f).replace(f"The {name}", "It").replace(f"the {name}", "it") for f in used[1:]]))
    opening = rng.choice(("", "", "A page about Wrenmouth, a small harbour town.\n\n",
                          f"The {kind}s of Wrenmouth.\n\n"))
    return opening + "\n\n".join(lines)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--chats", type=int, default=30000)
    arguments.add_argument("--pages", type=int, default=3000)
    arguments.add_argument("--seed", type=int, default=1)
    args = arguments.parse_args()
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    template = environment.from_string((pathlib.Path(__file__).parent / "chat_template.jinja").read_text())
    for split, seed, chats, pages in (("train", args.seed, args.chats, args.pages),
                                      ("heldout", args.seed + 1, args.chats // 100, args.pages // 100)):
        rng = random.Random(seed)
        texts = []
        for _ in range(chats):
            messages, tools = make_chat(rng, split == "heldout")
            texts.append(template.render(messages=messages, tools=tools))
        texts += [make_page(rng) for _ in range(pages)]
        rng.shuffle(texts)
        with open(args.work / f"dialogues_{split}.jsonl", "w", encoding="utf-8") as out:
            out.writelines(json.dumps({"text": t}) + "\n" for t in texts)
        print(split, len(texts), "texts", sum(map(len, texts)), "characters")
    rng = random.Random(args.seed + 2)
    with open(args.work / "questions.jsonl", "w", encoding="utf-8") as out:
        for make in [t[0] for t in PLAIN + NO_TOOL + TOOL_TURNS if t[0] is not small_talk]:
            seen = {}
            for _ in range(20 * QUESTIONS_PER_KIND):
                turn = make(rng, None)
                if held_out(turn) and len(seen) < QUESTIONS_PER_KIND:
                    seen.setdefault(turn.key, turn)
            for turn in seen.values():
                tools = lookups.with_distractors(rng, [turn.tool]) if turn.tool else []
                out.write(json.dumps({"kind": turn.kind, "messages": turn.messages(), "tools": tools}) + "\n")


if __name__ == "__main__":
    main()
