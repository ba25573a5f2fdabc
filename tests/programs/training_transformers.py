"""A tiny training with the Hugging Face Trainer and the callback."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
from told_by_trainers import OUT, STEPS, pace, say  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments  # noqa: E402

from elaunch.integrations.transformers import ElaunchCallback  # noqa: E402


class Data(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Any]:
        ids = torch.arange(index, index + 8) % 32
        return {"input_ids": ids, "labels": ids}


class Probe(TrainerCallback):
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        say("begin", restored=callback.restored, step=state.global_step, sum=_sum(model))

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        say("step", step=state.global_step, sum=_sum(model), epoch=state.epoch)
        pace(state.global_step)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        from elaunch.worker import program

        say("sections", names=[section.name for section in program._open])


def _sum(module: Any) -> float:
    return float(sum(p.double().sum() for p in module.parameters()))


if __name__ == "__main__":
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=32, n_positions=8))
    args = TrainingArguments(
        output_dir=str(OUT / "ckpt"),
        max_steps=STEPS,
        save_steps=5,
        save_total_limit=50,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=16,
        eval_strategy="steps",
        eval_steps=10,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_num_workers=0,
    )
    callback = ElaunchCallback(evaluation_timeout=60)
    trainer = Trainer(model, args, train_dataset=Data(), eval_dataset=Data(), callbacks=[callback, Probe()])
    trainer.train(resume_from_checkpoint=callback.checkpoint(args.output_dir))
    say("end", step=trainer.state.global_step, stopped=callback.stopped, sections=len(callback._sections._open))
