/*
 * A fake libnvidia-ml.so.1: the queries that a device plugin or a tool like nvidia-smi makes, as the
 * "NVML API Reference" publishes them (names, arguments, what is answered when), for the cards of a
 * scenario (scenario.h). Where the reference leaves a choice, a comment says what was chosen.
 */
#include "scenario.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { HANDLES = 256, SETS = 16, QUEUE = 64 };

/* Which answers a handle gets: of a card that needs a reset, who it is; of a MIG device, some. */
enum { WORKING = 0, IDENTITY = 1, MIG_TOO = 2 };

struct watch {
    char uuid[TEXT];
    number types;
};

struct set {
    bool used;
    unsigned int n_watches, n_queued;
    struct watch watches[CARDS];
    struct event queue[QUEUE];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct scenario scenario;
static unsigned int references, session; /* handles of an earlier session are not valid in this one */
static bool ever_initialized;
static char enumerated[CARDS][TEXT], handles[HANDLES][TEXT];
static bool lost[CARDS]; /* of the enumerated */
static unsigned int n_enumerated, n_handles, n_events_seen;
static struct set sets[SETS];

#define TRY(expression) \
    do { \
        nvmlReturn_t code_ = (expression); \
        if (code_ != NVML_SUCCESS) \
            return code_; \
    } while (0)
#define REQUIRE(condition, code) \
    do { \
        if (!(condition)) \
            return NVML_##code; \
    } while (0)
#define ARGUMENT(condition) REQUIRE(condition, INVALID_ARGUMENT)

/* Entering and leaving a call. */

static void note(const char *function)
{
    const char *path = getenv("FAKE_NVML_LOG");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (file < 0)
        return;
    dprintf(file, "%s\n", function);
    close(file);
}

static void enumerate(void)
{
    n_enumerated = scenario.n_cards;
    memset(lost, 0, sizeof lost);
    for (unsigned int i = 0; i < n_enumerated; i++)
        strcpy(enumerated[i], scenario.cards[i].uuid);
}

/* A card that fell off the bus is lost to this session, also when it is seen again. */
static void lose(void)
{
    for (unsigned int i = 0; i < n_enumerated; i++) {
        const struct card *card = scenario_card(&scenario, enumerated[i]);
        lost[i] |= !card || card->state == NVML_GPU_IS_LOST;
    }
}

/* Hand an event to the sets that watch for it now; what no set watches is not recorded. */
static void deliver(const struct event *event)
{
    for (struct set *set = sets; set < sets + SETS; set++)
        for (unsigned int i = 0; set->used && i < set->n_watches; i++)
            if (strcmp(set->watches[i].uuid, event->card) == 0 &&
                (set->watches[i].types & event->type) && set->n_queued < QUEUE)
                set->queue[set->n_queued++] = *event;
}

static void look(void)
{
    static bool looked;
    if (!scenario_read(&scenario))
        return;
    if (!looked || scenario.n_events < n_events_seen)
        n_events_seen = scenario.n_events;
    looked = true;
    while (n_events_seen < scenario.n_events)
        deliver(&scenario.events[n_events_seen++]);
    if (scenario.live)
        enumerate();
    lose();
}

static long long nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static number delay_of(const char *function)
{
    for (unsigned int i = 0; i < scenario.n_delays; i++)
        if (fnmatch(scenario.delays[i].function, function, 0) == 0)
            return scenario.delays[i].milliseconds;
    return 0;
}

/* The lock is free meanwhile, so that other threads go on, and the scenario can end it. */
static void dawdle(const char *function)
{
    long long start = nanoseconds();
    while (nanoseconds() - start < (long long)delay_of(function) * 1000000) {
        pthread_mutex_unlock(&lock);
        usleep(2000);
        pthread_mutex_lock(&lock);
        look();
    }
}

static bool enter(const char *function)
{
    pthread_mutex_lock(&lock);
    if (function)
        note(function);
    look();
    if (function)
        dawdle(function);
    return true;
}

static void leave(const bool *entered)
{
    if (*entered)
        pthread_mutex_unlock(&lock);
}

static nvmlReturn_t injected(const char *function, const char *uuid)
{
    for (unsigned int i = 0; i < scenario.n_failures; i++) {
        const struct failure *failure = &scenario.failures[i];
        if (strcmp(failure->uuid, uuid) == 0 && fnmatch(failure->function, function, 0) == 0)
            return failure->code;
    }
    return NVML_SUCCESS;
}

#define CALL(function) __attribute__((cleanup(leave), unused)) const bool entered = enter(function)
#define SESSION \
    CALL(__func__); \
    REQUIRE(references, UNINITIALIZED); \
    TRY(injected(__func__, ""))
#define DEVICE(card, handle, needs) \
    SESSION; \
    const struct card *card = NULL; \
    TRY(find(__func__, handle, needs, &card))

/* Handles: opaque numbers, never followed, so that any other number is known to be none. */

enum { DEVICE_MARK = 0x4E56, SET_MARK = 0x4E57 };

static uintptr_t handle_of(unsigned int mark, unsigned int slot)
{
    return (uintptr_t)mark << 32 | (uintptr_t)(session & 0xFFFF) << 16 | (slot + 1);
}

static unsigned int slot_of(unsigned int mark, const void *handle, unsigned int count)
{
    uintptr_t slot = ((uintptr_t)handle & 0xFFFF) - 1;
    return slot < count && handle_of(mark, slot) == (uintptr_t)handle ? slot : UINT32_MAX;
}

static nvmlDevice_t device_of(const char *uuid)
{
    unsigned int slot = 0;
    while (slot < n_handles && strcmp(handles[slot], uuid) != 0)
        slot++;
    if (slot == HANDLES)
        abort();
    if (slot == n_handles)
        strcpy(handles[n_handles++], uuid);
    return (nvmlDevice_t)handle_of(DEVICE_MARK, slot);
}

static unsigned int position(const struct card *card)
{
    unsigned int at = 0;
    if (card->parent[0]) { /* among the MIG devices of its card */
        for (const struct card *mig = scenario.migs; mig != card; mig++)
            at += strcmp(mig->parent, card->parent) == 0;
        return at;
    }
    while (at < n_enumerated && strcmp(enumerated[at], card->uuid) != 0)
        at++;
    return at;
}

static nvmlReturn_t health(const struct card *card, unsigned int needs)
{
    const struct card *owner = card->parent[0] ? scenario_card(&scenario, card->parent) : card;
    unsigned int index = position(owner);
    REQUIRE(index == n_enumerated || !lost[index], GPU_IS_LOST);
    if (owner->state == NVML_RESET_REQUIRED && (needs & IDENTITY))
        return NVML_SUCCESS;
    return owner->state;
}

static nvmlReturn_t find(const char *function, nvmlDevice_t device, unsigned int needs,
                         const struct card **found)
{
    unsigned int slot = slot_of(DEVICE_MARK, device, n_handles);
    ARGUMENT(slot != UINT32_MAX);
    const struct card *card = scenario_card(&scenario, handles[slot]);
    if (!card) /* what vanished: a MIG device is no longer valid, a card is off the bus */
        return strncmp(handles[slot], "MIG-", 4) ? NVML_GPU_IS_LOST : NVML_INVALID_ARGUMENT;
    ARGUMENT(!card->parent[0] || (needs & MIG_TOO));
    TRY(health(card, needs));
    *found = card;
    return injected(function, card->uuid);
}

static nvmlReturn_t hand_out(const char *function, const struct card *card, nvmlDevice_t *device)
{
    REQUIRE(card, GPU_IS_LOST);
    TRY(health(card, IDENTITY));
    TRY(injected(function, card->uuid));
    *device = device_of(card->uuid);
    return NVML_SUCCESS;
}

static nvmlReturn_t put(const char *text, char *buffer, unsigned int length)
{
    ARGUMENT(buffer);
    REQUIRE(strlen(text) < length, INSUFFICIENT_SIZE);
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

/* Initialization and Cleanup. */

static nvmlReturn_t initialize(const char *function, unsigned int flags)
{
    TRY(injected(function, ""));
#ifdef DRIVER_VERSION /* of which driver this library is; the scenario says which one is loaded */
    REQUIRE(strcmp(scenario.version, DRIVER_VERSION) == 0, LIB_RM_VERSION_MISMATCH);
#endif
    if (scenario.init_given)
        TRY(scenario.init);
    else
        REQUIRE(scenario.n_cards || (flags & NVML_INIT_FLAG_NO_GPUS), GPU_NOT_FOUND);
    if (references++ == 0) {
        session++;
        n_handles = 0;
        enumerate();
        lose();
    }
    ever_initialized = true;
    return NVML_SUCCESS;
}

/* The first nvmlInit initialized every card, and failed with any that was in a bad state. */
API nvmlReturn_t nvmlInit(void)
{
    CALL(__func__);
    for (unsigned int i = 0; i < scenario.n_cards; i++)
        TRY(scenario.cards[i].state);
    return initialize(__func__, 0);
}

API nvmlReturn_t nvmlInit_v2(void)
{
    CALL(__func__);
    return initialize(__func__, 0);
}

API nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    CALL(__func__);
    return initialize(__func__, flags);
}

/* One call too many is no error; one without any nvmlInit before is. */
API nvmlReturn_t nvmlShutdown(void)
{
    CALL(__func__);
    REQUIRE(ever_initialized, UNINITIALIZED);
    TRY(injected(__func__, ""));
    if (references && --references == 0)
        memset(sets, 0, sizeof sets);
    return NVML_SUCCESS;
}

API const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
#define SAY(name, value, text) \
    case NVML_##name: return text;
        NVML_CODES(SAY)
#undef SAY
    }
    return "Unknown Error";
}

/* System Queries. */

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    SESSION;
    return put(scenario.version, version, length);
}

API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) /* needs no nvmlInit */
{
    CALL(__func__);
    TRY(injected(__func__, ""));
    return put(scenario.nvml, version, length);
}

static nvmlReturn_t cuda(const char *function, int *version)
{
    CALL(function);
    ARGUMENT(version);
    TRY(injected(function, ""));
    *version = scenario.cuda;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuda(__func__, version);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return cuda(__func__, version);
}

/* The name of the real process of that number, cropped to the buffer. */
API nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    SESSION;
    ARGUMENT(name && length);
    char path[32];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "r");
    REQUIRE(file, NOT_FOUND);
    name[fread(name, 1, length - 1, file)] = 0;
    fclose(file);
    return NVML_SUCCESS;
}

/* Handles of cards. The first versions passed over cards that the caller may not talk to. */

static bool counted(unsigned int index, bool first_version)
{
    const struct card *card = scenario_card(&scenario, enumerated[index]);
    return !(first_version && card && card->state == NVML_NO_PERMISSION);
}

static nvmlReturn_t count(unsigned int *devices, bool first_version)
{
    ARGUMENT(devices);
    *devices = 0;
    for (unsigned int i = 0; i < n_enumerated; i++)
        *devices += counted(i, first_version);
    return NVML_SUCCESS;
}

static nvmlReturn_t by_index(const char *function, unsigned int index, nvmlDevice_t *device,
                             bool first_version)
{
    ARGUMENT(device);
    for (unsigned int i = 0; i < n_enumerated; i++)
        if (counted(i, first_version) && index-- == 0)
            return hand_out(function, scenario_card(&scenario, enumerated[i]), device);
    return NVML_INVALID_ARGUMENT;
}

API nvmlReturn_t nvmlDeviceGetCount(unsigned int *devices)
{
    SESSION;
    return count(devices, true);
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *devices)
{
    SESSION;
    return count(devices, false);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    SESSION;
    return by_index(__func__, index, device, true);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    SESSION;
    return by_index(__func__, index, device, false);
}

/*
 * The search takes the cards in turn, MIG devices after them; one that it cannot talk to it passes
 * over, and says so if the target was not among the others.
 */
static nvmlReturn_t by_uuid(const char *function, const char *uuid, nvmlDevice_t *device)
{
    ARGUMENT(uuid && device);
    ARGUMENT(strncmp(uuid, "GPU-", 4) == 0 || strncmp(uuid, "MIG-", 4) == 0);
    nvmlReturn_t otherwise = NVML_NOT_FOUND;
    for (unsigned int i = 0; i < n_enumerated; i++) {
        const struct card *card = scenario_card(&scenario, enumerated[i]);
        nvmlReturn_t code = card ? health(card, IDENTITY) : NVML_GPU_IS_LOST;
        if (code != NVML_SUCCESS)
            otherwise = code;
        else if (strcmp(card->uuid, uuid) == 0)
            return hand_out(function, card, device);
    }
    for (unsigned int i = 0; i < scenario.n_migs; i++)
        if (strcmp(scenario.migs[i].uuid, uuid) == 0)
            return hand_out(function, &scenario.migs[i], device);
    return otherwise;
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    SESSION;
    return by_uuid(__func__, uuid, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    SESSION;
    ARGUMENT(uuid && device);
    REQUIRE(uuid->version == NVML_VERSION_OF(nvmlUUID_t, 1), ARGUMENT_VERSION_MISMATCH);
    ARGUMENT(uuid->type == NVML_UUID_TYPE_ASCII || uuid->type == NVML_UUID_TYPE_BINARY);
    char text[TEXT] = "GPU-", *to = text + 4;
    if (uuid->type == NVML_UUID_TYPE_ASCII)
        snprintf(text, TEXT, "%.*s", (int)sizeof uuid->value.str, uuid->value.str);
    else
        for (int i = 0; i < 16; i++)
            to += sprintf(to, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                          uuid->value.bytes[i]);
    return by_uuid(__func__, text, device);
}

API nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    SESSION;
    ARGUMENT(serial && device);
    const struct card *match = NULL;
    for (unsigned int i = 0; i < n_enumerated; i++) {
        const struct card *card = scenario_card(&scenario, enumerated[i]);
        REQUIRE(card, GPU_IS_LOST);
        TRY(health(card, IDENTITY));
        if (strcmp(card->serial, serial) == 0) {
            ARGUMENT(!match); /* two cards on one board have one serial number */
            match = card;
        }
    }
    REQUIRE(match, NOT_FOUND);
    return hand_out(__func__, match, device);
}

static bool read_bus_id(const char *text, unsigned int *domain, unsigned int *bus,
                        unsigned int *slot, unsigned int *function)
{
    char end;
    *domain = *function = 0;
    if (sscanf(text, "%x:%x.%x%c", bus, slot, function, &end) == 3)
        return true;
    return sscanf(text, "%x:%x:%x.%x%c", domain, bus, slot, function, &end) == 4 ||
           sscanf(text, "%x:%x:%x%c", domain, bus, slot, &end) == 3;
}

static nvmlReturn_t by_bus_id(const char *name, const char *text, nvmlDevice_t *device)
{
    unsigned int domain, bus, slot, function;
    ARGUMENT(text && device && read_bus_id(text, &domain, &bus, &slot, &function));
    for (unsigned int i = 0; i < n_enumerated; i++) {
        const struct card *card = scenario_card(&scenario, enumerated[i]);
        if (card && card->domain == domain && card->bus == bus && card->slot == slot && !function)
            return hand_out(name, card, device);
    }
    return NVML_NOT_FOUND;
}

/* The first version answered NOT_FOUND where the second answers NO_PERMISSION. */
API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *text, nvmlDevice_t *device)
{
    SESSION;
    nvmlReturn_t code = by_bus_id(__func__, text, device);
    return code == NVML_NO_PERMISSION ? NVML_NOT_FOUND : code;
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device)
{
    SESSION;
    return by_bus_id(__func__, text, device);
}

/* Device Queries with one answer each. */

#define NUMBER_QUERY(function, type, needs, expression) \
    API nvmlReturn_t function(nvmlDevice_t device, type *value) \
    { \
        DEVICE(card, device, needs); \
        ARGUMENT(value); \
        *value = (type)(expression); \
        return NVML_SUCCESS; \
    }
#define TEXT_QUERY(function, needs, member) \
    API nvmlReturn_t function(nvmlDevice_t device, char *text, unsigned int length) \
    { \
        DEVICE(card, device, needs); \
        return put(card->member, text, length); \
    }

static unsigned int architecture(const struct card *card)
{
    int capability = card->major * 10 + card->minor_version;
    static const struct { int from; unsigned int code; } codes[] = {
        {130, 0xFFFFFFFF}, {100, 10}, {90, 9}, {89, 8}, {80, 7}, {75, 6}, {70, 5}, {60, 4},
        {50, 3}, {30, 2},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (capability >= codes[i].from)
            return codes[i].code;
    return 0xFFFFFFFF;
}

TEXT_QUERY(nvmlDeviceGetName, IDENTITY | MIG_TOO, name)
TEXT_QUERY(nvmlDeviceGetUUID, IDENTITY | MIG_TOO, uuid)
TEXT_QUERY(nvmlDeviceGetSerial, IDENTITY, serial)
NUMBER_QUERY(nvmlDeviceGetIndex, unsigned int, IDENTITY | MIG_TOO, position(card))
NUMBER_QUERY(nvmlDeviceGetMinorNumber, unsigned int, IDENTITY, card->minor)
NUMBER_QUERY(nvmlDeviceGetBrand, nvmlBrandType_t, IDENTITY, card->brand)
NUMBER_QUERY(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, IDENTITY, architecture(card))
NUMBER_QUERY(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, WORKING, card->persistence)
NUMBER_QUERY(nvmlDeviceGetComputeMode, nvmlComputeMode_t, WORKING, card->compute_mode)
NUMBER_QUERY(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, WORKING, 1)
NUMBER_QUERY(nvmlDeviceGetPowerUsage, unsigned int, WORKING, card->power)
NUMBER_QUERY(nvmlDeviceGetPowerManagementLimit, unsigned int, WORKING, card->power_limit)
NUMBER_QUERY(nvmlDeviceGetEnforcedPowerLimit, unsigned int, WORKING, card->power_limit)
NUMBER_QUERY(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, WORKING, card->energy)
NUMBER_QUERY(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, WORKING,
             card->retired_pending)
NUMBER_QUERY(nvmlDeviceGetSupportedEventTypes, unsigned long long, WORKING, card->events)
NUMBER_QUERY(nvmlDeviceIsMigDeviceHandle, unsigned int, IDENTITY | MIG_TOO, card->parent[0] != 0)
NUMBER_QUERY(nvmlDeviceGetMaxMigDeviceCount, unsigned int, IDENTITY,
             card->mig == ENABLED ? card->mig_max : 0)

/* Device Queries with more. */

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    DEVICE(card, device, IDENTITY);
    ARGUMENT(major && minor);
    *major = card->major;
    *minor = card->minor_version;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    DEVICE(card, device, MIG_TOO);
    ARGUMENT(memory);
    number used = card->reserved + card->used;
    *memory = (nvmlMemory_t){.total = card->total, .free = card->total - used, .used = used};
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    DEVICE(card, device, MIG_TOO);
    ARGUMENT(memory);
    REQUIRE(memory->version == NVML_VERSION_OF(nvmlMemory_v2_t, 2), ARGUMENT_VERSION_MISMATCH);
    memory->total = card->total;
    memory->reserved = card->reserved;
    memory->free = card->total - card->reserved - card->used;
    memory->used = card->used;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    DEVICE(card, device, WORKING);
    ARGUMENT(rates);
    REQUIRE(card->mig != ENABLED, NOT_SUPPORTED);
    *rates = (nvmlUtilization_t){.gpu = card->utilization, .memory = card->memory_utilization};
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                          unsigned int *temperature)
{
    DEVICE(card, device, WORKING);
    ARGUMENT(temperature && sensor == 0); /* there is one sensor, the die's */
    *temperature = card->temperature;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    DEVICE(card, device, WORKING);
    ARGUMENT(temperature);
    REQUIRE(temperature->version == NVML_VERSION_OF(nvmlTemperature_t, 1),
            ARGUMENT_VERSION_MISMATCH);
    ARGUMENT(temperature->sensorType == 0);
    temperature->temperature = card->temperature;
    return NVML_SUCCESS;
}

static nvmlPciInfo_t pci_info(const struct card *card)
{
    nvmlPciInfo_t pci = {
        .domain = card->domain, .bus = card->bus, .device = card->slot,
        .pciDeviceId = card->pci_device, .pciSubSystemId = card->pci_subsystem};
    snprintf(pci.busIdLegacy, sizeof pci.busIdLegacy, "%04X:%02X:%02X.0", pci.domain & 0xFFFF,
             pci.bus & 0xFF, pci.device & 0xFF);
    snprintf(pci.busId, sizeof pci.busId, "%08X:%02X:%02X.0", pci.domain, pci.bus, pci.device);
    return pci;
}

/* The structure of the earlier versions is shorter: only what they share is written. */
#define PCI_QUERY(function, size) \
    API nvmlReturn_t function(nvmlDevice_t device, nvmlPciInfo_t *pci) \
    { \
        DEVICE(card, device, IDENTITY); \
        ARGUMENT(pci); \
        nvmlPciInfo_t answer = pci_info(card); \
        memcpy(pci, &answer, size); \
        return NVML_SUCCESS; \
    }

PCI_QUERY(nvmlDeviceGetPciInfo, offsetof(nvmlPciInfo_t, busId))
PCI_QUERY(nvmlDeviceGetPciInfo_v2, offsetof(nvmlPciInfo_t, busId))
PCI_QUERY(nvmlDeviceGetPciInfo_v3, sizeof(nvmlPciInfo_t))

API nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
    DEVICE(card, device, IDENTITY);
    ARGUMENT(pci);
    REQUIRE(pci->version == NVML_VERSION_OF(nvmlPciInfoExt_t, 1), ARGUMENT_VERSION_MISMATCH);
    nvmlPciInfo_t plain = pci_info(card);
    *pci = (nvmlPciInfoExt_t){
        .version = pci->version, .domain = plain.domain, .bus = plain.bus, .device = plain.device,
        .pciDeviceId = plain.pciDeviceId, .pciSubSystemId = plain.pciSubSystemId,
        .baseClass = 0x03, .subClass = 0x02}; /* PCI class 0302: a 3D controller */
    memcpy(pci->busId, plain.busId, sizeof pci->busId);
    return NVML_SUCCESS;
}

/* Memory that fails: ECC, retired pages, remapped rows. */

API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current,
                                      nvmlEnableState_t *pending)
{
    DEVICE(card, device, WORKING);
    ARGUMENT(current && pending);
    REQUIRE(card->ecc != UNSUPPORTED, NOT_SUPPORTED);
    *current = *pending = card->ecc == ENABLED;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter,
                                             unsigned long long *errors)
{
    DEVICE(card, device, WORKING);
    ARGUMENT(errors && type <= 1 && counter <= 1);
    REQUIRE(card->ecc == ENABLED, NOT_SUPPORTED);
    *errors = type ? card->uncorrected : card->corrected;
    return NVML_SUCCESS;
}

static nvmlReturn_t retired(const struct card *card, nvmlPageRetirementCause_t cause,
                            unsigned int *pages, unsigned long long *addresses)
{
    ARGUMENT(pages && cause <= 1);
    unsigned int room = *pages;
    *pages = cause ? card->retired_dbe : card->retired_sbe;
    REQUIRE(*pages <= room, INSUFFICIENT_SIZE);
    ARGUMENT(addresses || *pages == 0);
    for (unsigned int i = 0; i < *pages; i++)
        addresses[i] = (cause + 1ULL) << 32 | i << 12;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                           unsigned int *pages, unsigned long long *addresses)
{
    DEVICE(card, device, WORKING);
    return retired(card, cause, pages, addresses);
}

API nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                              unsigned int *pages, unsigned long long *addresses,
                                              unsigned long long *times)
{
    DEVICE(card, device, WORKING);
    TRY(retired(card, cause, pages, addresses));
    ARGUMENT(times || *pages == 0);
    for (unsigned int i = 0; i < *pages; i++)
        times[i] = 1700000000000000ULL + i;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
                                           unsigned int *uncorrectable, unsigned int *pending,
                                           unsigned int *failed)
{
    DEVICE(card, device, WORKING);
    ARGUMENT(correctable && uncorrectable && pending && failed);
    REQUIRE(card->major >= 8 && card->mig != ENABLED, NOT_SUPPORTED);
    *correctable = card->remapped_correctable;
    *uncorrectable = card->remapped_uncorrectable;
    *pending = card->remap_pending;
    *failed = card->remap_failed;
    return NVML_SUCCESS;
}

/* Values by number. One that the card or the driver does not know fails alone. */

static nvmlReturn_t field(const struct card *card, unsigned int id, unsigned int *value)
{
    bool remaps = card->major >= 8 && card->mig != ENABLED;
    switch (id) {
    case NVML_FI_DEV_RETIRED_PENDING: *value = card->retired_pending; return NVML_SUCCESS;
    case NVML_FI_DEV_REMAPPED_COR: *value = card->remapped_correctable; break;
    case NVML_FI_DEV_REMAPPED_UNC: *value = card->remapped_uncorrectable; break;
    case NVML_FI_DEV_REMAPPED_PENDING: *value = card->remap_pending; break;
    case NVML_FI_DEV_REMAPPED_FAILURE: *value = card->remap_failed; break;
    case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
        *value = card->recovery;
        return card->recovery == NVML_VALUE_NOT_AVAILABLE_U64 ? NVML_NOT_SUPPORTED : NVML_SUCCESS;
    default: return NVML_NOT_SUPPORTED;
    }
    return remaps ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    DEVICE(card, device, WORKING);
    ARGUMENT(values && count > 0);
    for (nvmlFieldValue_t *value = values; value < values + count; value++) {
        value->timestamp = nanoseconds() / 1000;
        value->latencyUsec = 0;
        value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        value->value.ullVal = 0;
        value->nvmlReturn = field(card, value->fieldId, &value->value.uiVal);
    }
    return NVML_SUCCESS;
}

/* Processes. */

static bool runs_on(const struct process *process, const struct card *card)
{
    const struct card *place = scenario_card(&scenario, process->card);
    return place && (strcmp(place->uuid, card->uuid) == 0 || strcmp(place->parent, card->uuid) == 0);
}

static nvmlProcessDetail_v1_t detail(const struct process *process)
{
    const struct card *place = scenario_card(&scenario, process->card);
    bool mig = place->parent[0];
    return (nvmlProcessDetail_v1_t){
        .pid = process->pid, .usedGpuMemory = process->used,
        .gpuInstanceId = mig ? place->gpu_instance : NVML_NO_INSTANCE,
        .computeInstanceId = mig ? place->compute_instance : NVML_NO_INSTANCE,
        .usedGpuCcProtectedMemory = 0};
}

/* Each version of the structure begins with the one before it. */
static nvmlReturn_t processes(const struct card *card, enum kind kind, unsigned int *entries,
                              void *infos, size_t size)
{
    ARGUMENT(entries && (infos || *entries == 0));
    unsigned int room = *entries;
    *entries = 0;
    for (unsigned int i = 0; i < scenario.n_processes; i++) {
        const struct process *process = &scenario.processes[i];
        if (process->kind != kind || !runs_on(process, card))
            continue;
        nvmlProcessDetail_v1_t entry = detail(process);
        if (*entries < room)
            memcpy((char *)infos + *entries * size, &entry, size);
        ++*entries;
    }
    REQUIRE(*entries <= room, INSUFFICIENT_SIZE);
    return NVML_SUCCESS;
}

#define PROCESS_QUERY(function, kind, type) \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned int *entries, type *infos) \
    { \
        DEVICE(card, device, MIG_TOO); \
        return processes(card, kind, entries, infos, sizeof(type)); \
    }

PROCESS_QUERY(nvmlDeviceGetComputeRunningProcesses, COMPUTE, nvmlProcessInfo_v1_t)
PROCESS_QUERY(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE, nvmlProcessInfo_v2_t)
PROCESS_QUERY(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE, nvmlProcessInfo_t)
PROCESS_QUERY(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS, nvmlProcessInfo_v1_t)
PROCESS_QUERY(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS, nvmlProcessInfo_v2_t)
PROCESS_QUERY(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS, nvmlProcessInfo_t)
PROCESS_QUERY(nvmlDeviceGetMPSComputeRunningProcesses, MPS, nvmlProcessInfo_v1_t)
PROCESS_QUERY(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS, nvmlProcessInfo_v2_t)
PROCESS_QUERY(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS, nvmlProcessInfo_t)

API nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                       nvmlProcessDetailList_t *list)
{
    DEVICE(card, device, MIG_TOO);
    ARGUMENT(list && list->version == NVML_VERSION_OF(nvmlProcessDetailList_t, 1));
    ARGUMENT(list->mode <= MPS);
    REQUIRE(card->major >= 9, NOT_SUPPORTED);
    return processes(card, list->mode, &list->numProcArrayEntries, list->procArray,
                     sizeof *list->procArray);
}

/* Multi Instance GPU. */

API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
                                      unsigned int *pending)
{
    DEVICE(card, device, IDENTITY);
    ARGUMENT(current && pending);
    REQUIRE(card->mig != UNSUPPORTED, NOT_SUPPORTED);
    *current = card->mig == ENABLED;
    *pending = (card->mig_pending ? card->mig_pending : card->mig) == ENABLED;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                     nvmlDevice_t *mig)
{
    DEVICE(card, device, IDENTITY);
    ARGUMENT(mig);
    REQUIRE(card->mig != UNSUPPORTED, NOT_SUPPORTED);
    ARGUMENT(index < card->mig_max);
    for (unsigned int i = 0; i < scenario.n_migs; i++)
        if (strcmp(scenario.migs[i].parent, card->uuid) == 0 && index-- == 0)
            return hand_out(__func__, &scenario.migs[i], mig);
    return NVML_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig,
                                                              nvmlDevice_t *device)
{
    DEVICE(card, mig, IDENTITY | MIG_TOO);
    ARGUMENT(device && card->parent[0]);
    *device = device_of(card->parent);
    return NVML_SUCCESS;
}

#define INSTANCE_QUERY(function, member) \
    API nvmlReturn_t function(nvmlDevice_t mig, unsigned int *id) \
    { \
        DEVICE(card, mig, IDENTITY | MIG_TOO); \
        ARGUMENT(id && card->parent[0]); \
        *id = card->member; \
        return NVML_SUCCESS; \
    }

INSTANCE_QUERY(nvmlDeviceGetGpuInstanceId, gpu_instance)
INSTANCE_QUERY(nvmlDeviceGetComputeInstanceId, compute_instance)

/* Event Handling. */

static struct set *set_of(nvmlEventSet_t handle)
{
    unsigned int slot = slot_of(SET_MARK, handle, SETS);
    return slot != UINT32_MAX && sets[slot].used ? &sets[slot] : NULL;
}

API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    SESSION;
    ARGUMENT(set);
    for (unsigned int slot = 0; slot < SETS; slot++)
        if (!sets[slot].used) {
            sets[slot] = (struct set){.used = true};
            *set = (nvmlEventSet_t)handle_of(SET_MARK, slot);
            return NVML_SUCCESS;
        }
    return NVML_INSUFFICIENT_RESOURCES;
}

API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                          nvmlEventSet_t handle)
{
    DEVICE(card, device, WORKING);
    struct set *set = set_of(handle);
    ARGUMENT(set && !(types & ~NVML_EVENT_ALL));
    REQUIRE(!(types & ~card->events), NOT_SUPPORTED);
    struct watch *watch = set->watches;
    while (watch < set->watches + set->n_watches && strcmp(watch->uuid, card->uuid) != 0)
        watch++;
    if (watch == set->watches + set->n_watches) {
        REQUIRE(set->n_watches < CARDS, INSUFFICIENT_RESOURCES);
        *watch = (struct watch){0};
        strcpy(watch->uuid, card->uuid);
        set->n_watches++;
    }
    watch->types |= types;
    return NVML_SUCCESS;
}

static nvmlReturn_t next_event(struct set *set, nvmlEventData_t *data)
{
    if (set->n_queued) {
        struct event event = set->queue[0];
        memmove(set->queue, set->queue + 1, --set->n_queued * sizeof event);
        *data = (nvmlEventData_t){
            .device = device_of(event.card), .eventType = event.type, .eventData = event.xid,
            .gpuInstanceId = NVML_NO_INSTANCE, .computeInstanceId = NVML_NO_INSTANCE};
        return NVML_SUCCESS;
    }
    for (unsigned int i = 0; i < set->n_watches; i++) {
        const struct card *card = scenario_card(&scenario, set->watches[i].uuid);
        REQUIRE(card && health(card, IDENTITY) != NVML_GPU_IS_LOST, GPU_IS_LOST);
    }
    return NVML_TIMEOUT;
}

static nvmlReturn_t look_for_event(const char *function, nvmlEventSet_t handle,
                                   nvmlEventData_t *data)
{
    CALL(function);
    REQUIRE(references, UNINITIALIZED);
    TRY(injected(function ? function : "", ""));
    struct set *set = set_of(handle);
    ARGUMENT(set && data);
    return next_event(set, data);
}

/* The lock is free between two looks: other threads go on, as with the real library. */
static nvmlReturn_t wait_for_event(const char *function, nvmlEventSet_t set, nvmlEventData_t *data,
                                   size_t size, unsigned int timeout)
{
    long long deadline = nanoseconds() + timeout * 1000000LL;
    nvmlEventData_t event;
    nvmlReturn_t code = look_for_event(function, set, data ? &event : NULL);
    while (code == NVML_TIMEOUT && nanoseconds() < deadline) {
        usleep(5000);
        code = look_for_event(NULL, set, &event);
    }
    if (code == NVML_SUCCESS)
        memcpy(data, &event, size);
    return code;
}

/* The first version knew no instances. */
API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout)
{
    return wait_for_event(__func__, set, data, offsetof(nvmlEventData_t, gpuInstanceId), timeout);
}

API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                     unsigned int timeout)
{
    return wait_for_event(__func__, set, data, sizeof *data, timeout);
}

API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t handle)
{
    SESSION;
    struct set *set = set_of(handle);
    ARGUMENT(set);
    *set = (struct set){0};
    return NVML_SUCCESS;
}
