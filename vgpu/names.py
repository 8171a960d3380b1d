"""Every name that users, manifests, the webhook and the plugin share. Nothing else spells them."""

PREFIX = "milligpu.io/"
"""All our resource names, annotations and labels begin with this."""

# Resource names in a container's limits and requests.
ASK = "gpu"
ASK_QUALIFIED = PREFIX + "gpu"
NVIDIA_GPU = "nvidia.com/gpu"
COUNT = PREFIX + "vgpu"
WHOLE = PREFIX + "pgpu"
CPU = "cpu"

ASK_KEYS = (ASK, ASK_QUALIFIED)
"""An ask whatever the value; `nvidia.com/gpu` is one only when its value is a fraction."""
GRANT_KEYS = (COUNT, WHOLE)
_OTHERS = ("nvidia.com/gpu.shared", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
GPU_RESOURCES = frozenset({NVIDIA_GPU, *_OTHERS, *GRANT_KEYS})
MIG_PREFIX = "nvidia.com/mig-"

# Annotations.
ANNOTATION_ASK = PREFIX + "gpu"
ANNOTATION_FRAMEWORK = PREFIX + "framework"
ANNOTATION_THROTTLE = PREFIX + "cpu-throttle"
ANNOTATION_SHARE = PREFIX + "share"
ANNOTATIONS_READ = (ANNOTATION_ASK, ANNOTATION_FRAMEWORK, ANNOTATION_THROTTLE)
ANNOTATIONS_KNOWN = frozenset({*ANNOTATIONS_READ, ANNOTATION_SHARE})
ANNOTATION_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
ANNOTATION_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"

# A namespace with this label and value is left alone.
LABEL_ADMISSION = PREFIX + "admission"
ADMISSION_DISABLED = "disabled"

# Environment of a container.
ENV_FRACTION = "PER_PROCESS_GPU_MEMORY_FRACTION"
ENV_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
VOID = "void"
ENV_OURS = "MILLIGPU_"
ENV_CUDA_DEVICES = "CUDA_VISIBLE_DEVICES"
ENV_RESERVED = frozenset({ENV_VISIBLE_DEVICES, ENV_CUDA_DEVICES})
ENV_RESERVED_PREFIXES = ("CUDA_MPS_", "NVIDIA_GPU_MEMORY_", ENV_OURS)
ENV_GPU_UUID = ENV_OURS + "GPU_UUID"
ENV_SLOTS = ENV_OURS + "SLOTS"
ENV_SHARE = ENV_OURS + "SHARE"
ENV_MEMORY_MIB = ENV_OURS + "MEMORY_MIB"
ENV_MEMORY_FRACTION = ENV_OURS + "MEMORY_FRACTION"
ENV_OF_SHARES = frozenset({ENV_GPU_UUID, ENV_SLOTS, ENV_SHARE, ENV_MEMORY_MIB, ENV_MEMORY_FRACTION})

CDI_KIND = PREFIX + "gpu"
"""Vendor and class of the CDI devices that we describe ourselves."""

# Where things run.
NAMESPACE = "milligpu"
NODE_NAMESPACE = "milligpu-node"
SERVICE = "webhook"
WEBHOOK_CONFIGURATION = "milligpu"
ENTRY_TEMPLATES = "templates.milligpu.io"
ENTRY_STORED_TEMPLATES = "stored-" + ENTRY_TEMPLATES
ENTRY_CUSTOM_TEMPLATES = "custom-" + ENTRY_TEMPLATES
ENTRY_STORED_CUSTOM_TEMPLATES = "stored-" + ENTRY_CUSTOM_TEMPLATES
SECRET_CA = "milligpu-ca"
SECRET_SERVING = "milligpu-tls"
TLS_CERTIFICATE, TLS_KEY = "tls.crt", "tls.key"


def is_reserved(variable: str) -> bool:
    """Whether a container with a share may not set this variable itself."""
    return variable in ENV_RESERVED or variable.startswith(ENV_RESERVED_PREFIXES)


def is_gpu_resource(name: str) -> bool:
    """Whether a resource name stands for a GPU or a part of one (design section 1)."""
    return name in GPU_RESOURCES or name.startswith(MIG_PREFIX)
