"""What the model computed, as plain arrays: the record, its checks, and the sink that collects it.

This module imports numpy alone, so that code which only reads records needs no torch.
"""

from transformer.capture.record import KINDS, AttentionRecord, Check

__all__ = ["KINDS", "AttentionRecord", "Check"]
