/* Reads the scenario. Its language is described in scenario.h. */
#include "scenario.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_SIZE = 1 << 18, WORDS = 64 };

/* How a key's text becomes a member. */
enum form { STRING, NUMBER, CODE, MODE, KIND };

struct field {
    const char *key;
    enum form form;
    size_t offset;
};

struct statement { /* one line, cut into words */
    unsigned int line, n_words;
    char *words[WORDS];
};

#define FIELD(type, form, key, member) {key, form, offsetof(struct type, member)}

static const struct field card_fields[] = {
    FIELD(card, STRING, "uuid", uuid),
    FIELD(card, STRING, "card", parent),
    FIELD(card, STRING, "name", name),
    FIELD(card, STRING, "serial", serial),
    FIELD(card, STRING, "pci", pci),
    FIELD(card, STRING, "capability", capability),
    FIELD(card, NUMBER, "total", total),
    FIELD(card, NUMBER, "reserved", reserved),
    FIELD(card, NUMBER, "used", used),
    FIELD(card, NUMBER, "minor", minor),
    FIELD(card, NUMBER, "brand", brand),
    FIELD(card, NUMBER, "compute_mode", compute_mode),
    FIELD(card, NUMBER, "persistence", persistence),
    FIELD(card, NUMBER, "pci_device", pci_device),
    FIELD(card, NUMBER, "pci_subsystem", pci_subsystem),
    FIELD(card, NUMBER, "temperature", temperature),
    FIELD(card, NUMBER, "power", power),
    FIELD(card, NUMBER, "power_limit", power_limit),
    FIELD(card, NUMBER, "energy", energy),
    FIELD(card, NUMBER, "utilization", utilization),
    FIELD(card, NUMBER, "memory_utilization", memory_utilization),
    FIELD(card, MODE, "ecc", ecc),
    FIELD(card, NUMBER, "corrected", corrected),
    FIELD(card, NUMBER, "uncorrected", uncorrected),
    FIELD(card, NUMBER, "retired_sbe", retired_sbe),
    FIELD(card, NUMBER, "retired_dbe", retired_dbe),
    FIELD(card, NUMBER, "retired_pending", retired_pending),
    FIELD(card, NUMBER, "remapped_correctable", remapped_correctable),
    FIELD(card, NUMBER, "remapped_uncorrectable", remapped_uncorrectable),
    FIELD(card, NUMBER, "remap_pending", remap_pending),
    FIELD(card, NUMBER, "remap_failed", remap_failed),
    FIELD(card, NUMBER, "recovery", recovery),
    FIELD(card, MODE, "mig", mig),
    FIELD(card, MODE, "mig_pending", mig_pending),
    FIELD(card, NUMBER, "mig_max", mig_max),
    FIELD(card, NUMBER, "gpu_instance", gpu_instance),
    FIELD(card, NUMBER, "compute_instance", compute_instance),
    FIELD(card, NUMBER, "events", events),
    FIELD(card, CODE, "state", state), /* SUCCESS, or what the card's functions answer */
    {0},
};

static const struct field process_fields[] = {
    FIELD(process, STRING, "card", card),
    FIELD(process, NUMBER, "pid", pid),
    FIELD(process, NUMBER, "used", used),
    FIELD(process, KIND, "kind", kind),
    {0},
};

static const struct field event_fields[] = {
    FIELD(event, STRING, "card", card),
    FIELD(event, NUMBER, "type", type),
    FIELD(event, NUMBER, "xid", xid),
    {0},
};

static const struct field driver_fields[] = {
    FIELD(scenario, STRING, "version", version),
    FIELD(scenario, STRING, "nvml", nvml),
    FIELD(scenario, NUMBER, "cuda", cuda),
    {0},
};

static void die(unsigned int line, const char *fault, const char *word)
{
    const char *path = getenv("FAKE_NVML_SCENARIO");
    fprintf(stderr, "fake NVML: %s:%u: %s: %s\n", path ? path : "", line, fault, word);
    abort();
}

static number choice(unsigned int line, const char *text, const char *const *words)
{
    for (number i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    die(line, "not one of the words for this key", text);
    return 0;
}

static number number_of(unsigned int line, const char *text)
{
    if (strcmp(text, "na") == 0)
        return NVML_VALUE_NOT_AVAILABLE_U64;
    char *end;
    errno = 0;
    number value = strtoull(text, &end, 0);
    if (errno || *end || text[0] < '0' || text[0] > '9')
        die(line, "not a number", text);
    return value;
}

static number code_of(unsigned int line, const char *text)
{
#define NAMED(name, value, string) \
    if (strcmp(text, #name) == 0) \
        return value;
    NVML_CODES(NAMED)
#undef NAMED
    return number_of(line, text);
}

static void copy(unsigned int line, char *target, const char *text)
{
    if (strlen(text) >= TEXT)
        die(line, "too long", text);
    strcpy(target, text);
}

static void assign(unsigned int line, const struct field *field, void *object, const char *text)
{
    static const char *const modes[] = {"unsupported", "disabled", "enabled", NULL};
    static const char *const kinds[] = {"compute", "graphics", "mps", NULL};
    void *member = (char *)object + field->offset;
    switch (field->form) {
    case STRING: copy(line, member, text); break;
    case NUMBER: *(number *)member = number_of(line, text); break;
    case CODE: *(number *)member = code_of(line, text); break;
    case MODE: *(number *)member = choice(line, text, modes); break;
    case KIND: *(number *)member = choice(line, text, kinds); break;
    }
}

/* Give `object` the values of the statement's key=value words. */
static void fill(const struct statement *statement, const struct field *fields, void *object)
{
    for (unsigned int i = 1; i < statement->n_words; i++) {
        char *word = statement->words[i], *equals = strchr(word, '=');
        const struct field *field = fields;
        if (!equals)
            die(statement->line, "not key=value", word);
        while (field->key && (strlen(field->key) != (size_t)(equals - word) ||
                              strncmp(field->key, word, equals - word) != 0))
            field++;
        if (!field->key)
            die(statement->line, "no such key", word);
        assign(statement->line, field, object, equals + 1);
    }
}

#define ADD(statement, array, count, limit) \
    ((count) < (limit) ? &(array)[(count)++] : (die((statement)->line, "too many", ""), (array)))

static void add_card(struct scenario *scenario, const struct statement *statement)
{
    number index = scenario->n_cards;
    struct card *card = ADD(statement, scenario->cards, scenario->n_cards, CARDS);
    *card = (struct card){
        .name = "Tesla T4", .capability = "7.5", .serial = "0320718000001",
        .total = 16106127360, .minor = index, .brand = 14, .persistence = 1,
        .pci_device = 0x1EB810DE, .pci_subsystem = 0x12A210DE,
        .temperature = 40, .power = 27000, .power_limit = 70000,
        .ecc = ENABLED, .mig_max = 7, .events = 0xF,
    };
    snprintf(card->pci, TEXT, "00000000:%02llX:00.0", index + 1);
    fill(statement, card_fields, card);
    char end;
    if (sscanf(card->pci, "%llx:%llx:%llx.0%c", &card->domain, &card->bus, &card->slot, &end) != 3)
        die(statement->line, "not a PCI bus id", card->pci);
    if (sscanf(card->capability, "%d.%d%c", &card->major, &card->minor_version, &end) != 2)
        die(statement->line, "not a compute capability", card->capability);
    if (strncmp(card->uuid, "GPU-", 4) != 0 || card->parent[0])
        die(statement->line, "a card needs uuid=GPU-...", card->uuid);
    if (card->reserved + card->used > card->total)
        die(statement->line, "more memory in use than there is", card->uuid);
}

static void add_mig(struct scenario *scenario, const struct statement *statement)
{
    struct card *mig = ADD(statement, scenario->migs, scenario->n_migs, CARDS);
    *mig = (struct card){.gpu_instance = scenario->n_migs, .capability = "8.0"};
    fill(statement, card_fields, mig);
    const struct card *parent = scenario_card(scenario, mig->parent);
    if (strncmp(mig->uuid, "MIG-", 4) != 0 || !parent || parent->mig != ENABLED)
        die(statement->line, "needs uuid=MIG-... and card= of a card with mig=enabled", mig->uuid);
}

static void add_failure(struct scenario *scenario, const struct statement *statement)
{
    struct failure *failure = ADD(statement, scenario->failures, scenario->n_failures, FAILURES);
    if (statement->n_words < 3 || statement->n_words > 4)
        die(statement->line, "wants: fail FUNCTION CODE [UUID]", "");
    copy(statement->line, failure->function, statement->words[1]);
    failure->code = code_of(statement->line, statement->words[2]);
    copy(statement->line, failure->uuid, statement->n_words == 4 ? statement->words[3] : "");
}

static void add_delay(struct scenario *scenario, const struct statement *statement)
{
    struct delay *delay = ADD(statement, scenario->delays, scenario->n_delays, DELAYS);
    if (statement->n_words != 3)
        die(statement->line, "wants: delay FUNCTION MILLISECONDS", "");
    copy(statement->line, delay->function, statement->words[1]);
    delay->milliseconds = number_of(statement->line, statement->words[2]);
}

static void add_event(struct scenario *scenario, const struct statement *statement)
{
    struct event *event = ADD(statement, scenario->events, scenario->n_events, EVENTS);
    *event = (struct event){.type = NVML_EVENT_XID};
    fill(statement, event_fields, event);
}

static void obey(struct scenario *scenario, const struct statement *statement)
{
    const char *verb = statement->words[0];
    const char *word = statement->n_words == 2 ? statement->words[1] : "";
    if (strcmp(verb, "card") == 0)
        add_card(scenario, statement);
    else if (strcmp(verb, "mig") == 0)
        add_mig(scenario, statement);
    else if (strcmp(verb, "process") == 0)
        fill(statement, process_fields,
             ADD(statement, scenario->processes, scenario->n_processes, PROCESSES));
    else if (strcmp(verb, "fail") == 0)
        add_failure(scenario, statement);
    else if (strcmp(verb, "delay") == 0)
        add_delay(scenario, statement);
    else if (strcmp(verb, "event") == 0)
        add_event(scenario, statement);
    else if (strcmp(verb, "driver") == 0)
        fill(statement, driver_fields, scenario);
    else if (strcmp(verb, "init") == 0) {
        scenario->init = code_of(statement->line, word);
        scenario->init_given = true;
    } else if (strcmp(verb, "enumerate") == 0 && strcmp(word, "live") == 0)
        scenario->live = true;
    else
        die(statement->line, "not understood", verb);
}

/* Cut a line into words, in place; double quotes keep blanks and go. */
static struct statement cut(unsigned int line, char *text)
{
    struct statement statement = {.line = line};
    bool quoted = false, inside = false;
    char *to = text, character = ' ';
    for (const char *from = text; character; from++) {
        character = *from; /* read before `to`, which may be here, is written */
        bool ends = !character || (!quoted && (character == ' ' || character == '\t'));
        if (!ends && !inside) {
            if (statement.n_words == WORDS)
                die(line, "too many words", from);
            statement.words[statement.n_words++] = to;
        }
        if (character == '"')
            quoted = !quoted;
        else if (!ends)
            *to++ = character;
        else if (inside)
            *to++ = 0;
        inside = !ends;
    }
    if (quoted)
        die(line, "a quote is not closed", text);
    return statement;
}

static size_t load(char *text)
{
    const char *path = getenv("FAKE_NVML_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        die(0, "FAKE_NVML_SCENARIO names no file that can be read", path ? path : "");
    size_t size = fread(text, 1, FILE_SIZE, file);
    fclose(file);
    if (size == FILE_SIZE)
        die(0, "larger than the fake can hold", "");
    text[size] = 0;
    return size;
}

bool scenario_read(struct scenario *scenario)
{
    static char text[FILE_SIZE], last[FILE_SIZE];
    static bool known;
    size_t size = load(text);
    if (known && strcmp(text, last) == 0)
        return false;
    memcpy(last, text, size + 1);
    known = true;
    *scenario = (struct scenario){
        .version = "550.54.15", .nvml = "12.550.54.15", .cuda = 12040};
    unsigned int line = 0;
    for (char *at = text, *next; at; at = next) {
        next = strchr(at, '\n');
        if (next)
            *next++ = 0;
        line++;
        if (*at == '#')
            continue;
        struct statement statement = cut(line, at);
        if (statement.n_words)
            obey(scenario, &statement);
    }
    return true;
}

static const struct card *among(const struct card *cards, unsigned int count, const char *uuid)
{
    for (unsigned int i = 0; i < count; i++)
        if (strcmp(cards[i].uuid, uuid) == 0)
            return &cards[i];
    return NULL;
}

const struct card *scenario_card(const struct scenario *scenario, const char *uuid)
{
    const struct card *card = among(scenario->cards, scenario->n_cards, uuid);
    return card ? card : among(scenario->migs, scenario->n_migs, uuid);
}
