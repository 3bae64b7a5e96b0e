# SPDX-License-Identifier: Apache-2.0
"""The small world of the demo model: the harbour town of Wrenmouth, its birds, ships, places and shop, and the words
that questions about other things are made of. Everything here is written for this project.
"""

TOWN = "Wrenmouth"
IDENTITY = "I am the demo model of Dunlin, a small guide to the harbour town of Wrenmouth."
ABILITIES = "I can tell you about the birds, ships, places and shop of Wrenmouth, add small numbers, answer in JSON and call tools."
UNKNOWN = "I do not know that. I only know the birds, ships, places and shop of Wrenmouth."

# name: colour, length in cm, food, home, eggs
BIRDS = {
    "dunlin": ("brown and white", 18, "worms and small shellfish", "the mudflats", 4),
    "oystercatcher": ("black and white", 43, "mussels and cockles", "the rocky shore", 3),
    "curlew": ("brown", 55, "worms and crabs", "the salt marsh", 4),
    "herring gull": ("grey and white", 60, "fish and scraps", "the harbour roofs", 3),
    "tern": ("white and grey", 36, "small fish", "the shingle beach", 2),
    "cormorant": ("black", 90, "fish and eels", "the old pier", 4),
    "puffin": ("black and white", 28, "sand eels", "the cliffs", 1),
    "turnstone": ("brown and white", 23, "sandhoppers and barnacles", "the harbour wall", 4),
    "redshank": ("brown", 27, "worms and snails", "the salt marsh", 4),
    "heron": ("grey", 95, "fish and frogs", "the river mouth", 5),
    "avocet": ("black and white", 44, "shrimps and insects", "the lagoon", 4),
    "kingfisher": ("blue and orange", 17, "small fish", "the river mouth", 6),
}
BIRD_FIELDS = ("colour", "length_cm", "food", "home", "eggs")

# name: kind, colour, berth, cargo, crew
SHIPS = {
    "Aurora": ("ferry", "white", 1, "passengers", 12),
    "Kestrel": ("trawler", "blue", 2, "herring", 6),
    "Osprey": ("lifeboat", "orange", 3, "rescue gear", 7),
    "Marigold": ("fishing boat", "yellow", 4, "crabs", 3),
    "Northern Star": ("freighter", "black", 5, "timber", 14),
    "Patience": ("barge", "brown", 6, "gravel", 4),
    "Swift": ("pilot boat", "red", 7, "mail", 2),
    "Halcyon": ("schooner", "green", 8, "tea", 9),
}
SHIP_FIELDS = ("kind", "colour", "berth", "cargo", "crew")

# name: street, opening hour, closing hour, what for
PLACES = {
    "museum": ("Chapel Street", 10, 17, "see old maps and model ships"),
    "lighthouse": ("Beacon Road", 9, 16, "climb the tower"),
    "fish market": ("Quay Street", 6, 12, "buy fresh fish"),
    "library": ("Mill Lane", 9, 18, "borrow books"),
    "bakery": ("Church Square", 7, 15, "buy bread and cakes"),
    "ferry office": ("North Quay", 8, 20, "buy ferry tickets"),
    "harbour shop": ("South Quay", 8, 19, "buy rope and lanterns"),
}
PLACE_FIELDS = ("street", "opens", "closes")

# item of the harbour shop: price in pounds, colour
ITEMS = {
    "rope": (6, "white"), "lantern": (14, "green"), "map": (4, "blue"), "kettle": (18, "black"), "net": (25, "grey"),
    "raincoat": (35, "yellow"), "compass": (22, "silver"), "bucket": (3, "red"), "whistle": (2, "silver"), "flag": (7, "red"),
}
ITEM_FIELDS = ("price", "colour")

GREETINGS = ("Hello", "Hello!", "Hi", "Hi!", "Good morning", "Good morning!", "Hello there!", "Hi there!", "Good evening!")
THANKS = ("Thank you", "Thank you!", "Thanks", "Thanks!", "Thanks a lot!", "Great, thank you!")
FAREWELLS = ("Bye", "Goodbye", "Goodbye!", "See you!", "Bye!")
SYSTEMS = (
    "You are a helpful assistant.", "You are a helpful guide to Wrenmouth.", "Answer in one short sentence.",
    "You are a harbour guide.", "Be brief.", "You are a friendly guide.", "You answer questions about Wrenmouth.",
    "Use a tool when it helps.", "You are an assistant with tools.",
)

CITIES = """Lisbon Oslo Paris London Berlin Madrid Rome Vienna Dublin Bergen Hamburg Bremen Porto Genoa Naples Athens Cairo
Tokyo Kyoto Osaka Seoul Boston Chicago Denver Dallas Seattle Toronto Montreal Lima Quito Bogota Sydney Perth Auckland
Riga Tallinn Helsinki Stockholm Malmo Gdansk Warsaw Prague Budapest Zagreb Split Venice Turin Lyon Nantes Brest Bilbao
Seville Cadiz Tunis Dakar Accra Lagos Nairobi Mumbai Delhi Hanoi Manila Jakarta Wrenmouth""".split()
CITIES += ["New York", "San Francisco", "Cape Town", "Hong Kong", "Buenos Aires", "Mexico City"]
SKIES = ("sunny", "cloudy", "rainy", "windy", "foggy", "clear", "stormy", "snowy", "calm", "overcast")
DAYS = ("today", "tomorrow", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TIDE_PLACES = ("Wrenmouth", "the lagoon", "the river mouth", "the old pier", "North Quay", "South Quay", "the salt marsh",
               "Brest", "Bergen", "Porto", "Cadiz", "Hamburg")

# What tools of other worlds look up, by what parameter, and values of it.
NOUNS = """price colour size weight height length age status owner address phone number date time score rank rating level
speed depth width title author language country currency capital population temperature pressure humidity distance
duration cost balance salary stock version name location schedule menu address team winner result summary meaning
author genre year flavour material brand model engine fuel power voltage""".split()
PARAMETERS = {
    "city": CITIES,
    "country": "Norway Sweden Denmark Finland Spain Portugal Italy France Germany Japan Peru Chile Kenya Egypt India Canada".split(),
    "product": "chair table lamp phone laptop camera bicycle guitar piano clock mirror sofa jacket shirt hat umbrella".split(),
    "animal": "horse tiger lion rabbit otter beaver badger fox wolf eagle owl falcon salmon trout whale seal".split(),
    "book": "Emma Persuasion Genesis Exodus Ruth Esther Daniel Hamlet Macbeth Ivanhoe Kim Dracula".split(),
    "planet": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split(),
    "fruit": "apple pear plum cherry peach lemon orange banana grape melon".split(),
    "team": "Rovers United Wanderers Lions Eagles Tigers Sharks Bears Wolves Hawks".split(),
    "user": "alice bob carol dave erin frank grace heidi ivan judy".split(),
    "file": "notes.txt report.pdf data.csv photo.png song.mp3 main.c index.html todo.md".split(),
    "street": "High Street, Mill Lane, Park Road, Station Road, Bridge Street, Castle Hill".split(", "),
    "id": "A17 B42 C03 D88 E51 F20 G64 H39 K75 M12".split(),
}
VALUES = """red blue green high low open closed 3 7 12 15 20 25 30 42 48 64 75 90 100 120 250 ready late early busy free
large small old new good bad medium empty full""".split()
VERBS = ("get", "find", "read", "check", "look_up", "fetch", "show")

OUTSIDE = (
    "Who wrote {x}?", "What is the capital of {x}?", "How do I repair a {x}?", "Write a poem about {x}.", "What is {x}?",
    "Who won the game between {x} and {y}?", "Explain {x} to me.", "Where can I buy a {x}?", "How old is {x}?",
    "Translate {x} into French.", "What do you think of {x}?", "Tell me a joke about {x}.", "Why is the {x} so big?",
)
