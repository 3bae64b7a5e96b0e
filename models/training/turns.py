# SPDX-License-Identifier: Apache-2.0
"""A turn of a generated chat: a question, perhaps a tool call with its response, and the answer."""

import dataclasses


def choose(rng, values):
    """One of values, which may be a set or a dict; the same for the same state of rng."""
    return rng.choice(sorted(values) if isinstance(values, (set, frozenset)) else list(values))


def article(word):
    return "an" if word[0] in "aeiou" else "a"


@dataclasses.dataclass
class Turn:
    kind: str  # row of the evaluation table
    key: str  # decides whether the turn is held out
    question: str
    answer: str
    subject: tuple = None  # (kind, name) that `it` in the next turn means
    tool: dict = None  # the definition that the call needs
    calls: tuple = ()  # (arguments, response) of each call of the tool
    always_train: bool = False

    def messages(self):
        rows = [{"role": "user", "content": self.question}]
        if self.calls:
            name = self.tool["function"]["name"]
            rows.append({"role": "assistant", "content": "", "tool_calls": [
                {"type": "function", "function": {"name": name, "arguments": arguments}} for arguments, _ in self.calls]})
            rows += [{"role": "tool", "content": response} for _, response in self.calls]
        return rows + [{"role": "assistant", "content": self.answer}]
