"""Verbs: the closed list of what a host may be asked for. None of them takes a command."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from reconciler.model.plan.verb import Verb
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbContract:
    """`item` maps each key, all required, to its meaning; an empty one is no work but a question.

    `evidence` and `refuses` are for the reader of the reference.
    """

    name: Verb
    summary: str
    item: Mapping[str, str]
    evidence: str
    refuses: tuple[str, ...]


ID, LOGIN = "the allocation's id, ten letters", "its login"
GID = "the group that reads them besides root; 0 where it has no account"
UID = "its uid; 0 where it has no account"

_STAGED = {
    "bundle": "its name",
    "version": "its version",
    "python": "of which Python, as `3.11`",
    "lock": "its requirements, a release with hashes a line, as read from its lock",
    "lockDigest": "the digest of that lock, by which a version is known",
    "digest": "that of its tree as it is recorded, which a repair brings back; or nothing",
    "index": "where its wheels are: an https address, a `file://` folder of the host, or"
    " nothing for the host's own default",
    "imports": "modules that must import before anybody sees it",
    "current": "the version that is to be the host's default, or nothing",
    "activate": "text of its activate.sh",
    "program": "the building program for a folder that stands for a host, else nothing",
}

_LIST = (
    VerbContract(
        name=Verb.OBSERVE,
        summary="Says what the host is and what the platform keeps on it; changes nothing.",
        item={},
        evidence="NodeFacts: identity, CPUs, memory, cards, drives, NICs, paths, descriptors",
        refuses=("a root folder that is not there",),
    ),
    VerbContract(
        name=Verb.DISCOVER,
        summary="Says as well what slots could be made of; the same question, asked of new hosts.",
        item={},
        evidence=(
            "NodeFacts with its topology: host keys, serial, whole cores and memory by NUMA node,"
            " every card on the bus, drives and adapters with what they hang on and who uses them"
        ),
        refuses=("a root folder that is not there",),
    ),
    VerbContract(
        name=Verb.PREPARE,
        summary="Makes the walls stand that tenants of a host live behind, in sshd and PAM too.",
        item={
            "login": "the login by which the host is worked on; its slice is open to every device",
            "undoAfter": "seconds after which the host puts all back unless somebody has kept it",
            "directories": "list of path and mode",
            "files": "list of path, mode and content; each replaced whole",
            "blocks": "list of path, content and place: marked lines at the `start` or `end` of a"
            " file of the distribution",
            "openSlice": "content of the file that opens a slice",
            "units": "names of the units that are enabled",
        },
        evidence="path → fact of every folder and file named; blocks, sshd's effective settings and"
        " the device rules of slices as named facts",
        refuses=(
            "a host without systemd, or whose cgroups are not version 2 alone",
            "an sshd configuration that sshd refuses already: nothing is touched",
            "a path that is no place of a node",
            "files that sshd, PAM or the bus could not read, and a disk that has no room for what"
            " is there now: nothing is touched",
            "to leave half of it: what cannot be taken up is put back, `prepare_rolled_back`",
        ),
    ),
    VerbContract(
        name=Verb.PROVIDE,
        summary="Makes the folders, the files and the confined account of an allocation.",
        item={
            "id": ID,
            "login": LOGIN,
            "directories": "list of path, mode, uid and gid; what they hold is not touched",
            "files": "list of path, mode and content; each replaced whole",
            "account": "uid, gid, group, gecos, shmBytes, subids, the first number inside of its"
            " containers or 0, and slots of nodeSlots, its share of the disks; null where it has no"
            " account",
        },
        evidence="path → fact of every folder and file named",
        refuses=(
            "a path that is no place of this allocation",
            "a link or a file where a folder should stand, a folder where a file should",
            "a way that leads through a link",
            "a login, uid, group or home that is somebody else's: `account_conflict`",
            "a host that has started anew since it was looked at: `host_rebooted`",
        ),
    ),
    VerbContract(
        name=Verb.ATTACH,
        summary="Makes an allocation have volumes, and makes those that never were.",
        item={
            "id": ID,
            "login": LOGIN,
            "uid": UID,
            "gid": "the gid of its project, whose the data is; 0 where it has no account",
            "volumes": "list of id, name, backend, sizeGiB, access, mode, mountPath, make, fenced,"
            " record and files: what it is, how and where it is to be had, whether it may be made,"
            " ids of allocations that are cut off from it, the text of its record, its mount units",
        },
        evidence="`attached <id>/<storage>`, read back from the kernel; path → fact of its record"
        " and units",
        refuses=(
            "to make what should be there and is not: `volume_missing`",
            "to format what is not proved blank: `volume_not_blank`",
            "a volume that somebody has by the record beside its data: `volume_fenced`",
            "a disk for which there is no room: `volume_without_room`",
            "what does not show at its place within some seconds: `volume_not_mounted`",
            "to wait for a share that does not answer: `volume_not_answering`",
            "backends that mount, on a folder that stands for a host: `storage_backend_unfit`",
            "an account that is not this allocation's: `account_conflict`",
        ),
    ),
    VerbContract(
        name=Verb.DETACH,
        summary="Takes volumes from an allocation; what is on them stays.",
        item={
            "id": ID,
            "login": LOGIN,
            "uid": UID,
            "end": "whether its own processes that work in there are ended, asked to at first",
            "volumes": "list of id, name, backend, mountPath, absent and last: its mount units, and"
            " whether nobody else has it on this host",
        },
        evidence="`attached <id>/<storage>` and the units are gone, read back",
        refuses=(
            "to take it from under somebody who is using it, who is named: `storage_busy`; with"
            " `end` also where others do, or what is ended keeps coming back",
            "to count an unmount that only hides it, in whatever namespace of that tenant",
            "to say it is let go of where nobody can reach what stands beside its data",
        ),
    ),
    VerbContract(
        name=Verb.REOPEN,
        summary="Makes files that an ended allocation has left on a volume those of another one.",
        item={
            "id": "the id of the allocation that is to own them",
            "login": LOGIN,
            "uid": "its uid",
            "volume": "the id of the volume",
            "backend": "what it lies on",
            "fenced": "ids of allocations that are cut off from it",
            "from": "the id of the allocation that has ended",
            "fromUid": "the uid that it had",
        },
        evidence="`reopened`: `all`, or `more` where the next call goes on, and how many were"
        " changed; `left`: how many were not, why, and some of their names",
        refuses=(
            "where the old uid is an account's or runs anything: `account_conflict`,"
            " `processes_left`",
            "where the ended allocation has the volume, by the record beside its data:"
            " `storage_in_use`",
            "where the other one does not have it on this host: `volume_not_mounted`",
            "to touch files of any other uid, groups, or modes but setuid and setgid of files",
            "to follow links, and to enter what is mounted below",
            "a file that has a name outside of the volume, and a device: they are told of and left",
        ),
    ),
    VerbContract(
        name=Verb.WIPE,
        summary="Removes the data of a volume that nobody has, and the word whose it was.",
        item={
            "volume": "its id",
            "backend": "what it lies on",
            "record": "path of its record",
        },
        evidence="its record is gone, read back",
        refuses=(
            "one that somebody has, by the record beside its data or by a mount: `storage_in_use`",
            "a folder at or below which something is mounted: nothing of it is removed",
            "what is not there although the host knows that it had it: `volume_missing`",
            "a folder of that name that says it is something else: `volume_not_blank`",
        ),
    ),
    VerbContract(
        name=Verb.FORGET,
        summary="Removes the word of a volume that another host, which reached it too, has wiped.",
        item={
            "volume": "its id",
            "backend": "what it lay on",
            "record": "path of its record",
        },
        evidence="its record is gone, read back",
        refuses=("where its data is there all the same: `volume_not_blank`",),
    ),
    VerbContract(
        name=Verb.SYNC,
        summary="Makes a key file hold exactly these keys, and ends sessions opened with others.",
        item={
            "id": ID,
            "login": LOGIN,
            "files": "list of path, mode and content: the whole key file",
            "absent": "list of paths: the key file, when nobody may log in",
            "uid": UID,
            "gid": GID,
        },
        evidence="path → fact of the key file",
        refuses=(
            "any path but the login's own key file",
            "lines that are no public key: other types, a type unlike its blob",
            "options but from= and those that take forwarding away",
            "a last line without its end",
            "a way that others may write to, on which sshd would read nothing, and to open a login"
            " that PAM or sshd would not let in, as a key of one use has shown: `login_refused`",
        ),
    ),
    VerbContract(
        name=Verb.RESTART,
        summary="Ends all that runs for an allocation, once a generation; what it keeps stays.",
        item={
            "id": ID,
            "login": LOGIN,
            "uid": UID,
            "generation": "which restart this is; one that the host has reached is not done again",
            "reboot": "whether the whole host starts anew, a moment after it has answered",
            "gpus": "UUIDs of its GPUs, each reset where its driver can do so alone",
        },
        evidence="for each GPU `reset`, or why not; `restart <id>`, read back, is the generation"
        " once nothing older is left, and the host is in another boot if it was to be",
        refuses=(
            "an account that is not this allocation's: `account_conflict`",
            "a generation below the one that it has reached",
            "to start a folder anew",
            "to go on while a process of its uid keeps coming back: `processes_left`",
            "a host that has started anew since it was looked at: `host_rebooted`",
        ),
    ),
    VerbContract(
        name=Verb.QUARANTINE,
        summary="Ends all that runs for an allocation that is to go; everything it has stays.",
        item={"id": ID, "login": LOGIN, "uid": UID},
        evidence="`runs <login>`, read back: no session, no process, nothing mounted",
        refuses=(
            "an account that is not this allocation's: `account_conflict`",
            "to go on while a process of its uid keeps coming back: `processes_left`",
        ),
    ),
    VerbContract(
        name=Verb.RELEASE,
        summary="Ends and removes everything that was made for an allocation, its account last.",
        item={
            "id": ID,
            "login": LOGIN,
            "absent": "list of paths, files and folders of this allocation",
            "uid": UID,
            "gid": "the gid of its project, likewise; the group goes with its last account",
        },
        evidence="path → fact of every path named, null where nothing is left",
        refuses=(
            "a path that is no place of this allocation",
            "a link or a file where a folder was made, a folder where a file was made",
            "a folder at or below which something is mounted: nothing of it is removed",
            "an account that is not this allocation's: `account_conflict`",
            "to go on while a process of its uid keeps coming back: `processes_left`",
        ),
    ),
    VerbContract(
        name=Verb.STAGE,
        summary="Begins to build a version of a bundle, unless it is there or being built.",
        item=_STAGED,
        evidence="`runtime <bundle>/<version>`, read back: `staging`, `staged` with the digest of"
        " its manifest, `changed` or `failed` with a code",
        refuses=(
            "one that is there and was made from other requirements: `runtime_changed`",
            "a folder where the link to the default should be, and one that was never sealed where"
            " the version should be: `runtime_layout_broken`",
            "requirements that are not those that were agreed, that have no hashes, or in which"
            " there are options: `item_invalid`",
            "to build where nobody may have mounts of their own: `runtime_needs_root`",
        ),
    ),
    VerbContract(
        name=Verb.REPAIR,
        summary="Makes a version of a bundle be what was put there; strangers in it go, by name.",
        item=_STAGED,
        evidence="`runtime <bundle>/<version>`; `removed` names what was not ours",
        refuses=(
            "to touch anything outside of its folder",
            "a folder that was never sealed, one in which something is mounted, and all that a"
            " build refuses",
        ),
    ),
    VerbContract(
        name=Verb.DISCARD,
        summary="Removes a version of a bundle that nobody uses or names.",
        item={
            "bundle": "its name",
            "version": "its version",
            "withDefault": "whether it goes as the host's default too, as nobody offers its bundle",
        },
        evidence="`runtime <bundle>/<version>` is gone, read back",
        refuses=(
            "one that a descriptor names, a process uses or has mounted, or that is the host's"
            " default and is not to go as such, by name: `runtime_in_use`",
            "one in which something is mounted: nothing of it is removed",
        ),
    ),
    VerbContract(
        name=Verb.WRITE_ENV,
        summary="Says to sessions and programs what an allocation is and which runtimes it has.",
        item={
            "id": ID,
            "login": LOGIN,
            "uid": UID,
            "gid": GID,
            "files": "list of path, mode and content: its env file, and that of its sessions",
        },
        evidence="path → fact of each file",
        refuses=(
            "any path but its own env files",
            "a line that readers of env files understand each in a way of their own",
        ),
    ),
)

VERBS: Mapping[str, VerbContract] = MappingProxyType({verb.name: verb for verb in _LIST})


def check_item(verb: str, item: Mapping[str, object]) -> Problem | None:
    """Why a host would refuse this work, as far as its keys show; hosts judge again, and deeper."""
    known = VERBS.get(verb)
    if known is None or not known.item:
        return Problem(code="verb_unknown", message=f"{verb!r} is no work for a host")
    odd = sorted(set(item) ^ set(known.item))
    if not odd:
        return None
    what = "unknown" if odd[0] in item else "missing"
    return Problem(code="item_invalid", message=f"{verb}: {what} key {odd[0]!r}")
