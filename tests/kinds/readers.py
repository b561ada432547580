"""Who keeps what a document says: for every field of every schema, a module that reads it.

The word after the colon is the attribute by which the module reads it, where that is not the
field's own name. `SHOWN` are words for people, which `gpuaas show` prints as they stand.
"""

from __future__ import annotations

SHOWN = """
user.displayName project.displayName sku.displayName node_family.description
node.slots[].nic.name node.slots[].gpu.serial node.slots[].nvme.sizeGiB
grant.reason allocation.restart.reason
"""

READERS = """
allocation.sku planner/limits
allocation.owner planner/leniency
allocation.access kinds/access
allocation.storage planner/joining
allocation.storage[].name planner/attaching
allocation.storage[].mountPath planner/attaching
allocation.storage[].mode planner/joining
allocation.runtimes planner/wanting
allocation.runtimes[].bundle planner/wanting
allocation.runtimes[].version planner/wanting
allocation.restart planner/restarting
allocation.restart.generation planner/restarting
allocation.expiresAt kinds/lease
allocation.waitUntil planner/leasing
allocation.protect operations/recording
allocation.node kinds/allocation
grant.allocation kinds/access
grant.user kinds/access
grant.keys kinds/access
grant.privilege kinds/access
grant.expiresAt kinds/access
grant.endSessions kinds/grant
grant.options kinds/access
grant.options.from kinds/access:from_
grant.options.forwarding kinds/access
storage.class planner/joining:class_
storage.sizeGiB planner/joining
storage.accessMode planner/joining
storage.onDelete planner/storage_words
storage.protect operations/recording
storage.node kinds/storage
user.emails planner/authorship
user.osLogins planner/authorship
user.state kinds/access
user.keys kinds/access
user.keys[].id kinds/access
user.keys[].publicKey kinds/access
user.keys[].expiresAt kinds/access
project.tenant planner/capacity
project.members planner/authorship
project.members[].user planner/authorship
project.members[].role planner/authorship
project.quota planner/limits
project.quota.gpus planner/limits
project.quota.allocations planner/limits
project.quota.storageGiB planner/storing
project.entitlements planner/limits
project.entitlements.skus planner/limits
project.entitlements.storageClasses kinds/storage
project.lease kinds/lease
project.lease.defaultHours kinds/lease
project.lease.maxHours kinds/lease
project.lease.mayBeOpenEnded kinds/allocation
project.gid planner/accounts
policy.tenants kinds/project
policy.lease kinds/lease
policy.lease.defaultHours kinds/lease
policy.lease.maxHours kinds/lease
policy.lease.graceHours planner/ending
policy.lease.warnHours planner/ending
policy.wait planner/leasing
policy.wait.maxHours planner/leasing
policy.release planner/ending
policy.release.undoMinutes planner/ending
policy.grant planner/granting
policy.grant.maxDays planner/granting
policy.grant.mayBeOpenEnded kinds/grant
policy.guard planner/admission
policy.guard.maxRemovals planner/admission
policy.guard.maxRemovalPercent planner/admission
policy.evidence planner/capacity
policy.evidence.maxAgeMinutes planner/capacity
policy.repair planner/leniency
policy.repair.platform planner/leniency
policy.repair.access planner/leniency
policy.repair.user planner/leniency:access
policy.placement planner/capacity
policy.placement.strategy planner/capacity
policy.containers kinds/containers
policy.bundles planner/discarding
policy.bundles.keepVersions planner/discarding
policy.bundles.allowUnknownCompatibility planner/wanting
policy.acceptedDrift planner/leniency
policy.acceptedDrift[].ref planner/leniency
policy.acceptedDrift[].key planner/leniency
policy.acceptedDrift[].reason planner/leniency
policy.acceptedDrift[].owner planner/leniency
policy.acceptedDrift[].until planner/leniency
node_family.gpu planner/compatibility
node_family.gpu.vendor planner/compatibility
node_family.gpu.model kinds/node
node_family.gpu.memoryMiB kinds/node
node_family.gpu.memoryTolerancePercent kinds/node_family
node_family.base planner/readiness
node_family.base.os planner/readiness
node_family.base.driverBranches planner/capacity
node_family.base.cudaMax planner/compatibility
node.address operations/observing
node.publicAddress operations/endpoints
node.ssh operations/observing
node.ssh.port operations/observing
node.ssh.user operations/enrolling
node.identity planner/readiness
node.identity.machineId planner/readiness
node.identity.hostKeys operations/observing
node.identity.serial cli/views/node
node.family planner/capacity
node.isolation planner/objections
node.sharing planner/objections
node.shapes planner/objections
node.root planner/staging
node.reserve kinds/overlaps
node.reserve.cpus kinds/overlaps
node.reserve.memoryGiB planner/objections
node.admin planner/objections
node.admin.state planner/objections
node.admin.reason planner/objections
node.admin.until planner/signs
node.admin.attestedBy kinds/node
node.slots planner/capacity
node.slots[].name planner/capacity
node.slots[].gpu planner/readiness
node.slots[].gpu.uuid planner/objections
node.slots[].gpu.pciAddress planner/objections
node.slots[].gpu.model planner/objections
node.slots[].gpu.memoryMiB planner/objections
node.slots[].numa planner/objections
node.slots[].cpus planner/objections
node.slots[].memoryGiB planner/objections
node.slots[].nvme planner/objections
node.slots[].nvme.id planner/objections
node.slots[].nic planner/objections
node.slots[].nic.pciAddress planner/objections
node.slots[].nic.rdma planner/objections
node.slots[].disabled planner/objections
node.slots[].disabled.reason planner/objections
node.slots[].disabled.ticket planner/objections
node.approvals kinds/approval
node.approvals[].by kinds/node
node.approvals[].at kinds/approval
node.approvals[].digest kinds/approval
node.approvals[].digests kinds/approval
node.approvals[].digests[].name kinds/approval
node.approvals[].digests[].digest kinds/approval
node.approvals[].covers kinds/approval
sku.shape planner/objections
sku.slots planner/placement
sku.families planner/placement
sku.isolation planner/placement
sku.minCpusPerSlot planner/objections
sku.minMemoryGiBPerSlot planner/objections
sku.rdma kinds/allocation
sku.rootAccess planner/verifying
sku.prices kinds/sku
sku.prices[].from kinds/sku:from_
sku.prices[].perGpuHour planner/why
sku.prices[].currency planner/why
sku.state planner/limits
storage_class.directory kinds/storage_class
storage_class.directory.path kinds/storage_class
storage_class.directory.shared kinds/storage_class
storage_class.loop kinds/storage_class
storage_class.loop.path kinds/storage_class
storage_class.loop.filesystem kinds/allocation_storage:backend
storage_class.nfs kinds/storage_class
storage_class.nfs.server kinds/allocation_storage:backend
storage_class.nfs.export kinds/storage_class
storage_class.nfs.options kinds/allocation_storage:backend
storage_class.accessModes kinds/storage
storage_class.maxAttachments planner/attaching
storage_class.available kinds/storage_class
storage_class.available.nodes kinds/storage_class
storage_class.available.families kinds/storage_class
storage_class.prices kinds/storage_class
storage_class.prices[].from kinds/storage_class:from_
storage_class.prices[].perGiBMonth planner/storage_words
storage_class.prices[].currency planner/storage_words
bundle.displayName cli/views/bundle
bundle.supportLevel cli/views/bundle
bundle.versions planner/staging
bundle.versions[].version planner/staging
bundle.versions[].compatible kinds/bundle
bundle.versions[].compatible.gpuVendor kinds/bundle
bundle.versions[].compatible.families kinds/bundle
bundle.versions[].compatible.driverMin kinds/bundle
bundle.versions[].compatible.cuda kinds/bundle
bundle.versions[].install planner/staging
bundle.versions[].install.method kinds/bundle
bundle.versions[].install.python planner/staging
bundle.versions[].install.lock planner/staging
bundle.versions[].install.lockDigest planner/staging
bundle.versions[].install.index planner/staging
bundle.versions[].verify planner/staging
bundle.versions[].verify.imports planner/staging
bundle.versions[].verify.gpu operations/bundling:get
bundle.versions[].stageOn planner/wanting
bundle.versions[].stageOn.families planner/wanting
bundle.versions[].stageOn.nodes planner/wanting
bundle.versions[].state planner/wanting
settings.operators planner/authorship
settings.specRoot specs/library
settings.state operations/wiring
settings.descriptorKey operations/planning
settings.ssh operations/observing
settings.ssh.identityFile operations/observing
settings.ssh.user operations/enrolling
settings.ownership specs/linking
settings.ownership[].path specs/linking
settings.ownership[].kinds specs/linking
settings.ownership[].projects specs/linking
settings.publish operations/endpoints
settings.publish.dir operations/endpoints
settings.publish.sshHostSuffix operations/endpoints
settings.publish.proxyJump operations/endpoints
settings.posix planner/accounts
settings.posix.firstUid planner/accounts
settings.posix.firstGid planner/accounts
settings.network kinds/node_host
settings.network.closed kinds/node_host
settings.keep operations/applying
settings.keep.logs operations/observing
settings.keep.runs store/pruning
settings.keep.events store/pruning
settings.keep.snapshots operations/applying
settings.replica operations/replicating
settings.replica.url operations/replicating
settings.replica.keyFile operations/replicating
settings.replica.hostKeyFile operations/replicating
settings.index planner/staging
"""

ONE_CHOICE = """
policy.repair.user bundle.versions[].install.method
"""
"""Fields whose only legal value says what happens anyway."""

WHOLLY_REFUSED = ("app", "app_manifest", "artifact")
"""Kinds of which nothing is done, each blocked by its `unsupported`."""

REFUSED_WITH_ISOLATION_VM = ("node.vm", "node.fabric")
"""Legal only beside `isolation: vm`, which is refused itself."""
