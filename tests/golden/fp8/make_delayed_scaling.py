# SPDX-License-Identifier: Apache-2.0
"""Scripted amax sequences through Transformer Engine's delayed scaling, as published: the oracle of delayed_scaling_test.

A straight transcription of common/recipe/delayed_scaling.cu for one E4M3 tensor, in float32. Floats are written as
their bits, because JSON has no infinity and no NaN. Needs numpy.
    python3 make_delayed_scaling.py > delayed_scaling.json
"""

import json

import numpy as np

F32 = np.float32
INF, NAN = F32(np.inf), F32(np.nan)


def update(history, scale, algorithm, margin):
    """One call after a step; history[0] holds the step's amax. Returns (history, scale)."""
    length = len(history)
    last_amax = history[0]
    if last_amax == 0:
        return history, scale
    amax = F32(0)
    updated = [F32(0)] * length
    for i in range(length):
        a = history[i + 1] if i < length - 1 else last_amax
        amax = np.fmax(amax, a)
        updated[i] = a if i > 0 else F32(0)
    if algorithm == "most_recent":
        amax = last_amax
    scaled_max = F32(448) * F32(2.0) ** F32(-margin)
    if np.isfinite(amax) and amax > 0:
        with np.errstate(over="ignore"):
            scale = F32(scaled_max / amax)
    if np.isinf(scale):
        scale = np.finfo(F32).max
    return updated, F32(scale)


def bits(value):
    return int(F32(value).view(np.uint32))


def sequences():
    generator = np.random.default_rng(20)
    usual = list(np.abs(generator.normal(size=40)).astype(F32) * F32(7))
    falling = [F32(1000) * F32(0.5) ** F32(i) for i in range(40)]
    odd = [F32(x) for x in (0, 0, 3, 0, INF, 2, 0, NAN, 5, 1e-45, 1e-40, 3e38, 448, 0, 0, 1, 2, 3, NAN, NAN)]
    tiny = [F32(x) for x in (1e-45, 1e-37, 1e-38, 1.3e-36, 1.4e-36, 0, 1e-45, 7)]
    first_is = [[F32(x), F32(2), F32(0), F32(1)] for x in (0, INF, NAN)]
    return [usual, falling, odd + odd, tiny] + first_is


def main():
    cases = []
    for length in (1, 2, 3, 16):
        for algorithm in ("max", "most_recent"):
            for margin in (0, 3):
                for amaxes in sequences():
                    history, scale, steps = [F32(0)] * length, F32(1), []
                    for amax in amaxes:
                        history[0] = np.fmax(history[0], amax) if not np.isnan(amax) else amax
                        history, scale = update(list(history), scale, algorithm, margin)
                        steps.append([bits(amax), bits(scale), bits(sum(map(F32, history[1:]), F32(0)))])
                    cases.append({"amax_history_len": length, "amax_compute_algo": algorithm, "margin": margin,
                                  "steps": steps, "history": [bits(a) for a in history]})
    doc = {"about": __doc__.split("\n")[0], "step": ["amax bits", "scale bits after", "bits of the history's float32 sum"],
           "cases": cases}
    print(json.dumps(doc, separators=(",", ":")))


if __name__ == "__main__":
    main()
