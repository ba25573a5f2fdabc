"""Tensors and values as bytes, as torch.distributed.checkpoint stores them, and back without running what they hold."""
