#!/usr/bin/python
"""The one module of the fast verbs: it takes a host's whole ordered work and answers each item."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gpuaas.converge import converge
from ansible.module_utils.gpuaas.paths import Refusal

DOCUMENTATION = r"""
module: gpuaas_converge
short_description: Converge the whole ordered work of one host
description:
  - Carries out a list of verbs below O(root), each idempotent, and answers one receipt for each.
  - A machine other than the one in O(expect) is not touched.
author: gpuaas
options:
  expect:
    description: What must be true of the host before anything is done.
    type: dict
    required: true
    suboptions:
      machine_id:
        description: The machine id; empty only for a root folder, which has no identity.
        type: str
        required: true
  root:
    description: Absolute path that every path of the work is below.
    type: str
    required: true
  work:
    description: Ordered items, each C(step), C(verb), C(ref) and C(item).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Nothing to do
  gpuaas_converge:
    expect: {machine_id: 4f3c2b1a0d9e48b7a6c5d4e3f2a1b0c9}
    root: /
    work: []
"""

RETURN = r"""
receipts:
  description: One answer for each item, in order; digests of content, never content.
  type: list
  returned: when the host is the one expected
code:
  description: Why the host was not touched at all.
  type: str
  returned: when nothing was tried
"""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "expect": {
                "type": "dict",
                "required": True,
                "options": {"machine_id": {"type": "str", "required": True}},
            },
            "root": {"type": "str", "required": True},
            "work": {"type": "list", "elements": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    args = module.params
    # An own `invocation` keeps Ansible from sending the arguments, and so content, back.
    try:
        receipts = converge(
            args["root"], args["expect"]["machine_id"], args["work"], dry=module.check_mode
        )
    except Refusal as refusal:
        module.fail_json(msg=refusal.message, code=refusal.code, invocation={})
    module.exit_json(
        changed=any(receipt["changed"] for receipt in receipts),
        failed=not all(receipt["ok"] for receipt in receipts),
        receipts=receipts,
        invocation={},
    )


if __name__ == "__main__":
    main()
