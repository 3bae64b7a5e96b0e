# SPDX-License-Identifier: Apache-2.0
"""Makes processors.json: greedy continuations by `transformers`' own generate(), each with one of its logits processors
on, and one with several, over two of the tiny checkpoints beside this script.

processors.json: source; cases[]: model, name, prompt, the parameters by the names of GenerationConfig, tokens, the
continuation, and clear: how many of them come before the first step with a gap under MIN_GAP between the two best
scores, where a comparison ends. Bad words, suppressed tokens and the end of sequence are taken from the plain
continuation, so that each case changes it; that this shows in the clear steps is checked here.

Usage: make_processor_goldens.py     (package versions: models/training/requirements.txt)
"""

import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["gpt2_tiny", "llama_gqa"]
STEPS = 32
MIN_GAP = 2e-3


def generate(model, prompt, **parameters):
    """The continuation, and the number of clear steps."""
    config = transformers.GenerationConfig(do_sample=False, max_new_tokens=STEPS, pad_token_id=0,
                                           return_dict_in_generate=True, output_scores=True, **parameters)
    # generate() merges what the model's own file has into fields that are unset.
    model.generation_config = transformers.GenerationConfig()
    result = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                            generation_config=config)
    clear = 0
    for scores in result.scores:
        best = scores[0].topk(2).values
        if (best[0] - best[1]).item() < MIN_GAP:
            break
        clear += 1
    return result.sequences[0, len(prompt):].tolist(), clear


def cases_of(plain, prompt):
    """Name -> parameters of generate()."""
    later = next(i for i in range(6, STEPS) if plain[i] not in plain[:i])
    # Beginning in the prompt: its last token, then what follows it.
    words = [[prompt[-1], plain[0]], [plain[3]], plain[8:11]]
    return {
        "repetition_penalty": {"repetition_penalty": 1.3},
        "repetition_penalty_below_one": {"repetition_penalty": 0.8},
        "bad_words_ids": {"bad_words_ids": words},
        "suppress_tokens": {"suppress_tokens": [plain[2], plain[5]]},
        "begin_suppress_tokens": {"begin_suppress_tokens": [plain[0]]},
        "end": {"eos_token_id": plain[later]},
        "min_new_tokens": {"eos_token_id": plain[later], "min_new_tokens": later + 3},
        "together": {"repetition_penalty": 1.2, "bad_words_ids": words, "suppress_tokens": [plain[2]],
                     "begin_suppress_tokens": [plain[0]], "eos_token_id": plain[later], "min_new_tokens": 20},
    }


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    cases = []
    for name in MODELS:
        model = transformers.AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32,
                                                                  attn_implementation="eager").eval()
        for prompt in (p["tokens"] for p in json.loads((HERE / name / "goldens.json").read_text())["prompts"][1:3]):
            plain, _ = generate(model, prompt)
            for case, parameters in cases_of(plain, prompt).items():
                tokens, clear = generate(model, prompt, **parameters)
                if clear < len(tokens) and tokens[:clear] == plain[:clear]:
                    raise SystemExit(f"{name}, {len(prompt)} tokens, {case}: no difference in {clear} clear steps")
                if tokens == plain:
                    raise SystemExit(f"{name}, {len(prompt)} tokens, {case}: no difference")
                cases.append({"model": name, "name": case, "prompt": prompt, **parameters, "tokens": tokens,
                              "clear": clear})
                print(f"{name}, {len(prompt)} tokens, {case}: {len(tokens)} tokens, {clear} clear")
    source = f"transformers {transformers.__version__}, float32, eager attention; torch {torch.__version__.split('+')[0]}"
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (HERE / "processors.json").write_text(f'{{"source":{json.dumps(source)},"cases":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
