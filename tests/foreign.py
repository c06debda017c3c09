"""Tiny checkpoints as transformers writes them, with tokenizers of their own kind."""

from __future__ import annotations

from pathlib import Path

WORDS = (
    "turn on the light in a room when nobody is at home",
    "das licht im zimmer geht an wenn jemand zu hause ist",
    "evde kimse yokken odanın ışığı açılır mı",
)


def write_bert(folder: Path, seed: int = 0) -> Path:
    """A BERT with word pieces, lower-cased."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import BertConfig, BertForMaskedLM

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(WORDS, trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=400,
    )  # fmt: skip
    return _write(BertForMaskedLM(config), tokenizer, folder)


def write_llama(folder: Path) -> Path:
    """A causal Llama with shared keys, on bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(WORDS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
        max_position_embeddings=512, tie_word_embeddings=False,
    )  # fmt: skip
    return _write(LlamaForCausalLM(config), tokenizer, folder)


def write_xlm_roberta(folder: Path) -> Path:
    """An XLM-R with a unigram tokenizer that marks spaces and has words added later, and a table
    padded beyond it; its embedding rows and positions are drawn, so that every id and place tells."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForMaskedLM

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=90, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(WORDS * 5, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    named = {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "mask": 4}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": special[i] for name, i in named.items()}
    )
    fast.add_tokens(["smarthome", "ışıklar"])
    torch.manual_seed(0)
    model = XLMRobertaForMaskedLM(
        XLMRobertaConfig(
            vocab_size=128, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1,
            bos_token_id=0, eos_token_id=2,
        )
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def _write(model, tokenizer, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
