"""A tiny training with Lightning and the callback."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
warnings.filterwarnings("ignore")

import lightning.pytorch as pl  # noqa: E402
import torch  # noqa: E402
from told_by_trainers import OUT, STEPS, pace, say  # noqa: E402

from elaunch.integrations.lightning import ElaunchCallback  # noqa: E402

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, index: int) -> Any:
        return self.layer(batch[0]).pow(2).mean()

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("loss", self.layer(batch[0]).mean(), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 10)]


class Probe(pl.Callback):
    """Comes after the callback, and sees what it has done."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        say("begin", restored=callback.restored, step=trainer.global_step, sum=_sum(pl_module))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        say("step", step=trainer.global_step, sum=_sum(pl_module), epoch=trainer.current_epoch)
        if trainer.global_step == 13 and callback._checkpointer is not None:
            callback._checkpointer.wait()
        pace(trainer.global_step)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        from elaunch.worker import program

        say("sections", names=[section.name for section in program._open])


def _sum(module: Any) -> float:
    return float(sum(p.double().sum() for p in module.parameters()))


if __name__ == "__main__":
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(64, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    callback = ElaunchCallback(OUT / "ckpt", every_n_steps=5, keep_last=100)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_steps=STEPS,
        callbacks=[callback, Probe()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=1,
        default_root_dir=OUT,
    )
    trainer.fit(Model(), loader, loader)
    say("end", step=trainer.global_step, stopped=callback.stopped, sections=len(callback._sections._open))
