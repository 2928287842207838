"""Train a tiny tokenizer and save it in the format of Hugging Face."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import WordLevelTrainer
from transformers import PreTrainedTokenizerFast

WORDS = ["one", "two", "three", "four", "five"]


def save(folder: Path, *, vocabulary: int = 0, eos: str | None = "<eod>") -> Path:
    """Save a tokenizer of whole words, with a token before and one after each text, that asks for truncation."""
    tokenizer = Tokenizer(WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    words = [*WORDS, *(f"w{number}" for number in range(vocabulary))]
    special = ["<unk>", "<s>", "</s>", "<eod>"]
    tokenizer.train_from_iterator([words], WordLevelTrainer(special_tokens=special, vocab_size=len(words) + 4))
    tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token=eos).save_pretrained(folder)
    return folder
