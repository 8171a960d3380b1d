/*
 * The part of the NVML binary interface that the fake library speaks.
 *
 * Names, member order and codes are those of the "NVML API Reference" (chapters Device Structs,
 * Device Enums, Event Types, Error Reporting); a comment after each type is its name there.
 * Nothing here is chosen by us: a client compiled or written for the real library must fit.
 */
#ifndef FAKE_NVML_TYPES_H
#define FAKE_NVML_TYPES_H

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

/* nvmlReturn_t, and what nvmlErrorString says of each code. */
#define NVML_CODES(CODE) \
    CODE(SUCCESS, 0, "Success") \
    CODE(UNINITIALIZED, 1, "Uninitialized") \
    CODE(INVALID_ARGUMENT, 2, "Invalid Argument") \
    CODE(NOT_SUPPORTED, 3, "Not Supported") \
    CODE(NO_PERMISSION, 4, "Insufficient Permissions") \
    CODE(ALREADY_INITIALIZED, 5, "Already Initialized") \
    CODE(NOT_FOUND, 6, "Not Found") \
    CODE(INSUFFICIENT_SIZE, 7, "Insufficient Size") \
    CODE(INSUFFICIENT_POWER, 8, "Insufficient External Power") \
    CODE(DRIVER_NOT_LOADED, 9, "Driver Not Loaded") \
    CODE(TIMEOUT, 10, "Timeout") \
    CODE(IRQ_ISSUE, 11, "Interrupt Request Issue") \
    CODE(LIBRARY_NOT_FOUND, 12, "NVML Shared Library Not Found") \
    CODE(FUNCTION_NOT_FOUND, 13, "Function Not Found") \
    CODE(CORRUPTED_INFOROM, 14, "Corrupted infoROM") \
    CODE(GPU_IS_LOST, 15, "GPU is lost") \
    CODE(RESET_REQUIRED, 16, "GPU requires reset") \
    CODE(OPERATING_SYSTEM, 17, "GPU access blocked by the operating system") \
    CODE(LIB_RM_VERSION_MISMATCH, 18, "Driver/library version mismatch") \
    CODE(IN_USE, 19, "In use by another client") \
    CODE(MEMORY, 20, "Insufficient Memory") \
    CODE(NO_DATA, 21, "No data") \
    CODE(VGPU_ECC_NOT_SUPPORTED, 22, "ECC not supported with vGPU") \
    CODE(INSUFFICIENT_RESOURCES, 23, "Insufficient resources") \
    CODE(FREQ_NOT_SUPPORTED, 24, "Frequency not supported") \
    CODE(ARGUMENT_VERSION_MISMATCH, 25, "Argument version mismatch") \
    CODE(DEPRECATED, 26, "Deprecated") \
    CODE(NOT_READY, 27, "Not ready") \
    CODE(GPU_NOT_FOUND, 28, "No GPU found") \
    CODE(INVALID_STATE, 29, "Invalid state") \
    CODE(UNKNOWN, 999, "Unknown Error")

#define DECLARE(name, value, text) NVML_##name = value,
typedef enum { NVML_CODES(DECLARE) } nvmlReturn_t;
#undef DECLARE

typedef enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 } nvmlEnableState_t;
typedef unsigned int nvmlBrandType_t;         /* nvmlBrandType_t, an enum there */
typedef unsigned int nvmlDeviceArchitecture_t;
typedef unsigned int nvmlComputeMode_t;       /* likewise */
typedef unsigned int nvmlTemperatureSensors_t;
typedef unsigned int nvmlMemoryErrorType_t;
typedef unsigned int nvmlEccCounterType_t;
typedef unsigned int nvmlPageRetirementCause_t;

enum { NVML_INIT_FLAG_NO_GPUS = 1, NVML_INIT_FLAG_NO_ATTACH = 2 };
enum { NVML_UUID_TYPE_ASCII = 1, NVML_UUID_TYPE_BINARY = 2 };
enum { NVML_NO_INSTANCE = 0xFFFFFFFF }; /* gpuInstanceId, computeInstanceId outside MIG */
#define NVML_VALUE_NOT_AVAILABLE_U64 0xFFFFFFFFFFFFFFFFULL

/* Event Types. */
#define NVML_EVENT_XID 0x8ULL
#define NVML_EVENT_ALL 0xFF9FULL

/* NVML_STRUCT_VERSION: the size in the low bytes, the version in the highest. */
#define NVML_VERSION_OF(type, number) ((unsigned int)sizeof(type) | (number) << 24U)

typedef struct { /* nvmlPciInfo_t; the first version had reserved words in the place of busId */
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct { /* nvmlPciInfoExt_v1_t */
    unsigned int version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
    char busId[32];
} nvmlPciInfoExt_t;

typedef struct { /* nvmlUUID_v1_t */
    unsigned int version, type;
    union {
        char str[41];
        unsigned char bytes[16];
    } value;
} nvmlUUID_t;

typedef struct { /* nvmlMemory_t: total = free + used, used includes what is reserved */
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct { /* nvmlMemory_v2_t: total = reserved + free + used */
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct { /* nvmlUtilization_t */
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct { /* nvmlTemperature_v1_t */
    unsigned int version;
    nvmlTemperatureSensors_t sensorType;
    int temperature;
} nvmlTemperature_t;

typedef struct { /* nvmlProcessInfo_v1_t */
    unsigned int pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct { /* nvmlProcessInfo_v2_t; the _v3 functions fill the same */
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t, nvmlProcessInfo_t;

typedef struct { /* nvmlProcessDetail_v1_t */
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
    unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct { /* nvmlProcessDetailList_v1_t */
    unsigned int version, mode, numProcArrayEntries;
    nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_t;

/* Field identifiers (Field Value Enums) and nvmlValueType_t. */
enum {
    NVML_FI_DEV_RETIRED_PENDING = 31,
    NVML_FI_DEV_REMAPPED_COR = 142,
    NVML_FI_DEV_REMAPPED_UNC = 143,
    NVML_FI_DEV_REMAPPED_PENDING = 144,
    NVML_FI_DEV_REMAPPED_FAILURE = 145,
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230,
    NVML_VALUE_TYPE_UNSIGNED_INT = 1,
};

typedef struct { /* nvmlFieldValue_t; the value is a union of numbers, the widest as here */
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned int valueType, nvmlReturn;
    union {
        double dVal;
        unsigned int uiVal;
        unsigned long long ullVal;
    } value;
} nvmlFieldValue_t;

typedef struct { /* nvmlEventData_t; the first version ended after eventData */
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

#endif
