"""The problem codes that a host may use itself when it refuses a step.

Whether a run was interrupted, or waits for a consent, is nothing that a host decides.
"""

from __future__ import annotations

HOST_CODES = frozenset(
    {
        "account_conflict",
        "cgroup_v2_required",
        "host_busy",
        "host_identity_changed",
        "host_rebooted",
        "host_unreachable",
        "item_invalid",
        "login_refused",
        "path_not_removed",
        "path_unsafe",
        "prepare_refused",
        "prepare_rolled_back",
        "processes_left",
        "runtime_changed",
        "runtime_in_use",
        "runtime_layout_broken",
        "runtime_needs_root",
        "runtime_without_room",
        "sshd_config_broken",
        "storage_backend_unfit",
        "storage_busy",
        "storage_in_use",
        "systemd_required",
        "verb_failed",
        "verb_unknown",
        "volume_fenced",
        "volume_missing",
        "volume_not_answering",
        "volume_not_blank",
        "volume_not_mounted",
        "volume_without_room",
    }
)
