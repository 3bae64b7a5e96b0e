# SPDX-License-Identifier: Apache-2.0
"""Makes the encoder goldens: tiny seeded directories of each family, their hidden states, vectors and token ids.

Each row of MODELS becomes a folder beside this script with what `transformers` writes (config.json, model.safetensors,
tokenizer.json, tokenizer_config.json), the files of sentence-transformers where the row has them, and goldens.json.
Hidden states come from the files just written: `transformers`, float32, eager attention, one input at a time, so that
nothing is padded; each is checked against the same model in float64. The tokenizers are trained on demo_heldout.txt.

goldens.json: source, hidden_dim, inputs[]: tokens; positions and rows, hidden states [len(positions)][hidden_dim];
mean, cls, last: vectors of all rows; mean_normalized: mean / |mean|. texts[]: text; token_ids, with special tokens.
Of sequence classifiers, pairs[]: query, document; token_ids, type_ids; logits.

Usage: make_encoder_goldens.py [NAME...]     (package versions: models/training/requirements.txt)
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, decoders, trainers

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parent / "models" / "demo_heldout.txt"
MAX_REFERENCE_ERROR = 8e-6
CONTEXT = 130
# Input length -> positions with stored rows. 130 is the longest input, and crosses tiles of 64 and 128 keys.
LENGTHS = {1: [0], 2: [0, 1], 9: range(9), 16: [0, 7, 15], 33: [0, 15, 16, 32], 65: [0, 63, 64],
           130: [0, 63, 64, 127, 128, 129]}
TEXTS = ["A dunlin flies in a tight flock.", "Hello, WORLD!  Two  spaces", "", " ", "naïve café — Ünïcödé ÅÄÖ", "日本語 と 中文",
         "tabs\tand\nlines\r\n", "ends with space ", "unknown \U0001f426 bird", "it's 3.14159, isn't it? e-mail@example.org",
         "[CLS] is not a token here", "supercalifragilisticexpialidocious" * 2, "a" * 120, "\u200bzero\u00adwidth\ufeff",
         "ﬁ ligature ½ ² Å"]


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train([str(CORPUS)], trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False))
    ids = {token: tokenizer.token_to_id(token) for token in special}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", sep_token="[SEP]",
                                                pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]",
                                                model_max_length=CONTEXT)


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train([str(CORPUS)], trainers.BpeTrainer(vocab_size=340, special_tokens=special, show_progress=False,
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True,
                                                            add_prefix_space=False)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>",
                                                unk_token="<unk>", sep_token="</s>", pad_token="<pad>", cls_token="<s>",
                                                mask_token="<mask>", model_max_length=CONTEXT)


def byte_level_causal():
    """As Qwen 3's embedding models: one token ends a text."""
    tokenizer = byte_level()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A:0 </s>:0", pair="$A:0 </s>:0 $B:1 </s>:1", special_tokens=[("</s>", 2)])
    return tokenizer


SENTENCE_FILES = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}],
    "1_Pooling/config.json": {"word_embedding_dimension": 36, "pooling_mode_cls_token": True,
                              "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": False,
                              "pooling_mode_mean_sqrt_len_tokens": False}}

LAST_TOKEN_FILES = {
    "modules.json": SENTENCE_FILES["modules.json"],
    "1_Pooling/config.json": {"word_embedding_dimension": 40, "pooling_mode_cls_token": False,
                              "pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True, "include_prompt": True},
    "config_sentence_transformers.json": {
        "prompts": {"query": "Instruct: Find the bird.\nQuery:", "document": ""}, "default_prompt_name": None,
        "similarity_fn_name": "cosine"}}

SPECIAL_IDS = {"pad_token_id": 0, "cls_token_id": 2, "bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
# Name -> (class saved, class run, config, tokenizer, dtype, seed, further files). The RoBERTa checkpoint has the
# "roberta." prefix and a language-model head, the BERT one a pooler.
MODELS = {
    "bert_tiny": (transformers.BertModel, transformers.BertModel, transformers.BertConfig(
        vocab_size=300, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52,
        max_position_embeddings=CONTEXT), wordpiece, torch.float32, 1, {}),
    "roberta_tiny": (transformers.RobertaForMaskedLM, transformers.RobertaModel, transformers.RobertaConfig(
        vocab_size=340, hidden_size=40, num_hidden_layers=2, num_attention_heads=4, intermediate_size=44,
        max_position_embeddings=CONTEXT + 2, type_vocab_size=1, layer_norm_eps=1e-5), byte_level, torch.float16, 2, {}),
    "bert_sentence": (transformers.BertModel, transformers.BertModel, transformers.BertConfig(
        vocab_size=300, hidden_size=36, num_hidden_layers=1, num_attention_heads=2, intermediate_size=40,
        max_position_embeddings=CONTEXT, hidden_act="gelu_new"), wordpiece, torch.float32, 3, SENTENCE_FILES),
    # The last layer has a window: 20 tokens to each side.
    "modernbert_tiny": (transformers.ModernBertForMaskedLM, transformers.ModernBertModel, transformers.ModernBertConfig(
        vocab_size=300, hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=CONTEXT, local_attention=40, **SPECIAL_IDS), wordpiece, torch.float32, 4, {}),
    "nomic_tiny": (transformers.NomicBertModel, transformers.NomicBertModel, transformers.NomicBertConfig(
        vocab_size=300, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52,
        max_position_embeddings=CONTEXT), wordpiece, torch.float32, 5, {}),
    "qwen3_embedding": (transformers.Qwen3ForCausalLM, transformers.Qwen3Model, transformers.Qwen3Config(
        vocab_size=340, hidden_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
        intermediate_size=44, max_position_embeddings=CONTEXT, tie_word_embeddings=True), byte_level_causal,
        torch.float32, 6, LAST_TOKEN_FILES),
    "xlmr_rerank": (transformers.XLMRobertaForSequenceClassification, transformers.XLMRobertaModel,
        transformers.XLMRobertaConfig(
            vocab_size=340, hidden_size=40, num_hidden_layers=2, num_attention_heads=4, intermediate_size=44,
            max_position_embeddings=CONTEXT + 2, type_vocab_size=1, layer_norm_eps=1e-5, num_labels=1), byte_level,
        torch.float32, 7, {}),
    "bert_rerank": (transformers.BertForSequenceClassification, transformers.BertModel, transformers.BertConfig(
        vocab_size=300, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52,
        max_position_embeddings=CONTEXT, num_labels=1), wordpiece, torch.float32, 8, {}),
    # The head reads the mean of the last hidden states, whose layer has a window; and the first, whose layer has none.
    "modernbert_mean_rerank": (transformers.ModernBertForSequenceClassification, transformers.ModernBertModel,
        transformers.ModernBertConfig(
            vocab_size=300, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
            max_position_embeddings=CONTEXT, local_attention=40, classifier_pooling="mean", num_labels=1, **SPECIAL_IDS),
        wordpiece, torch.float16, 9, {}),
    "modernbert_cls_rerank": (transformers.ModernBertForSequenceClassification, transformers.ModernBertModel,
        transformers.ModernBertConfig(
            vocab_size=300, hidden_size=36, num_hidden_layers=1, num_attention_heads=3, intermediate_size=40,
            max_position_embeddings=CONTEXT, classifier_pooling="cls", classifier_bias=True, norm_bias=True,
            classifier_activation="silu", num_labels=1, **SPECIAL_IDS), wordpiece, torch.float16, 10, {}),
}
CLASSIFIERS = {name: row[0] for name, row in MODELS.items() if name.endswith("_rerank")}
PAIRS = [("Where do dunlins breed?", "Dunlins breed in the Arctic."), ("Where do dunlins breed?", ""), ("", ""),
         ("bird", "A long text about birds. " * 6), ("naïve café", "日本語 と 中文"), ("a", "b"),
         ("special [SEP] </s> tokens", "are <s> text [CLS]")]


def draw_weights(model, generator):
    """Wide enough that attention is peaked; norms and biases that are not one and zero."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1 and "norm" in name.lower() and name.endswith("weight"):
            value = 1 + 0.2 * noise
        elif parameter.dim() == 1:
            value = 0.2 * noise
        else:
            value = noise * (0.5 if "embeddings" in name else 1.2 / parameter.shape[1] ** 0.5)
        parameter.data.copy_(value)


def save(folder, row):
    saved, _, config, make_tokenizer, dtype, seed, files = row
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    model = saved(config)
    draw_weights(model, torch.Generator().manual_seed(seed))
    model.to(dtype).save_pretrained(folder)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")


def lists(tensor):
    return [[round(v, 7) for v in row] for row in tensor.tolist()] if tensor.dim() == 2 else [
        round(v, 7) for v in tensor.tolist()]


def input_goldens(model, exact, tokens, positions):
    hidden = model(torch.tensor([tokens])).last_hidden_state[0]
    error = (hidden.double() - exact(torch.tensor([tokens])).last_hidden_state[0]).abs().max().item()
    mean = hidden.mean(dim=0)
    return {"tokens": tokens, "positions": list(positions), "rows": lists(hidden[list(positions)]), "mean": lists(mean),
            "cls": lists(hidden[0]), "last": lists(hidden[-1]), "mean_normalized": lists(mean / mean.norm())}, error


def pair_goldens(name, folder, tokenizer):
    load = {"attn_implementation": "eager"}
    model = CLASSIFIERS[name].from_pretrained(folder, dtype=torch.float32, **load).eval()
    exact = CLASSIFIERS[name].from_pretrained(folder, dtype=torch.float64, **load).eval()
    pairs, worst = [], 0.0
    for query, document in PAIRS:
        # A list of one pair: of an empty document alone, transformers would make a single text.
        encoded = tokenizer([[query, document]], split_special_tokens=True, return_token_type_ids=True,
                            return_tensors="pt")
        ids, types = encoded["input_ids"], encoded["token_type_ids"] if name.startswith("bert") else None
        logits = model(ids, token_type_ids=types).logits[0]
        worst = max(worst, (logits.double() - exact(ids, token_type_ids=types).logits[0]).abs().max().item())
        pairs.append({"query": query, "document": document, "token_ids": ids[0].tolist(),
                      "type_ids": [0] * ids.shape[1] if types is None else types[0].tolist(), "logits": lists(logits)})
    return pairs, worst


@torch.no_grad()
def make_model(name, row):
    folder = HERE / name
    save(folder, row)
    load = {"attn_implementation": "eager"} | ({"add_pooling_layer": False} if name.startswith(("roberta", "xlmr")) else {})
    model = row[1].from_pretrained(folder, dtype=torch.float32, **load).eval()
    exact = row[1].from_pretrained(folder, dtype=torch.float64, **load).eval()
    generator = torch.Generator().manual_seed(row[5] + 1000)
    vocab = row[2].vocab_size
    inputs, worst = [], 0.0
    for length, positions in LENGTHS.items():
        tokens = torch.randint(0, vocab, (length,), generator=generator).tolist()
        if length == 33 and "roberta" in row[2].model_type:
            tokens[7], tokens[20] = row[2].pad_token_id, row[2].pad_token_id  # padding inside takes no position
        goldens, error = input_goldens(model, exact, tokens, positions)
        inputs.append(goldens)
        worst = max(worst, error)
    if worst > MAX_REFERENCE_ERROR:
        raise SystemExit(f"{name}: float32 and float64 hidden states differ by {worst}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    # split_special_tokens: special tokens in a text are text, as the server reads them.
    texts = [{"text": text, "token_ids": tokenizer(text, split_special_tokens=True)["input_ids"]} for text in TEXTS]
    source = (f"transformers {transformers.__version__}, float32, eager attention; "
              f"torch {torch.__version__.split('+')[0]}; seed {row[5]}")
    goldens = {"source": source, "hidden_dim": row[2].hidden_size, "inputs": inputs, "texts": texts}
    if name in CLASSIFIERS:
        goldens["pairs"], error = pair_goldens(name, folder, tokenizer)
        worst = max(worst, error)
    (folder / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
    sizes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{name}: float64 difference {worst:.1e}, {sizes} bytes", flush=True)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in sys.argv[1:] or MODELS:
        make_model(name, MODELS[name])


if __name__ == "__main__":
    main()
