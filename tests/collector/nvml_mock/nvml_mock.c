/* A libnvidia-ml.so.1 whose GPUs live in a mapped state file (NVML_MOCK_STATE). It does what the
 * collector asks of NVML and nothing else; every value, return code, delay and hang is the file's.
 * The layout of the state is repeated in nvml_mock.py, and mock_sizeof tells both sides' sizes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GPUS 16
#define LINKS 18
#define FIELDS 308
#define MIGS 7
#define GPM 32
#define FUNCTIONS 64
#define EVENTS 64

typedef int ret;
enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, SHORT = 7, TIMEOUT = 10, MISMATCH = 25 };

typedef struct {
  char uuid[96], name[96];
  uint32_t gi, ci;
  uint64_t total, reserved, free, used;
  double gpm[GPM];
} mig;

typedef struct {
  char uuid[96], name[96], serial[32], vbios[32], firmware[64], bus_id[32];
  uint32_t minor;
  int32_t numa;
  int32_t handle_rc;          /* of nvmlDeviceGetHandleByIndex */
  int32_t every_rc;           /* of every call to this GPU */
  volatile uint32_t hang;     /* every call to this GPU waits while this is set */
  uint32_t delay_us;          /* every call to this GPU takes so long */
  int32_t rc[FUNCTIONS];      /* by function, in the order of NAMES */
  uint32_t util_gpu, util_memory;
  uint64_t total, reserved, free, used;
  uint32_t clock[4], max_clock[4];
  uint64_t reasons;
  int32_t temperature, margin;
  uint32_t threshold[4];
  uint32_t power_usage, pstate;
  uint64_t ecc[2][2][8];
  uint32_t ecc_location_present; /* bits */
  uint32_t banks[5];
  uint32_t sram_exceeded;
  uint32_t pcie_width, pcie_width_max, pcie_gen, pcie_gen_max;
  uint32_t links, link_up[LINKS];
  uint32_t fabric_state, fabric_status, fabric_health;
  uint32_t processes;
  uint32_t gpm_supported;
  uint32_t gpm_samples;       /* that succeeded */
  uint32_t gpm_window;        /* samples between the two that were last compared */
  double gpm[GPM];
  uint32_t registrations;     /* for events */
  uint64_t event_kinds;
  uint32_t mig_mode, mig_count;
  mig migs[MIGS];
  int32_t field_rc[FIELDS];
  uint32_t field_type[FIELDS];
  uint64_t field[FIELDS];
  uint64_t link_field[LINKS][FIELDS]; /* of scoped fields, added to field[] */
} gpu;

typedef struct { uint32_t gpu, gi, ci, unused; uint64_t kind, data; } event;

typedef struct {
  uint32_t magic, count;
  int32_t init_rc;
  volatile uint32_t lock_hang; /* every call waits while this is set */
  char driver[80], version[80];
  int32_t cuda;
  uint32_t calls;              /* calls to GPUs so far */
  volatile uint32_t noise;     /* the driver prints lines */
  volatile uint32_t event_hang;/* waiting for events does not end while this is set */
  int32_t event_rc;            /* of waiting for events */
  int32_t count_rc;            /* of nvmlDeviceGetCount */
  uint32_t settled, unused;    /* settled: nvmlDeviceGetCount tells what nvmlInit found */
  volatile uint32_t events_put, events_taken; /* ever */
  event events[EVENTS];
  gpu gpus[GPUS];
} state;

/* The structs of nvml.h that are filled here. */
typedef struct { uint32_t fieldId, scopeId; int64_t timestamp, latencyUsec; uint32_t valueType, nvmlReturn; uint64_t value; } field_value;
typedef struct { uint32_t gpu, memory; } utilization;
typedef struct { uint64_t total, free, used; } memory_v1;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } memory_v2;
typedef struct { uint32_t version, sensor; int32_t celsius; } temperature_v1;
typedef struct { uint32_t version; int32_t margin; } margin_v1;
typedef struct { char legacy[16]; uint32_t domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { uint32_t max, high, partial, low, none; } banks;
typedef struct { uint32_t version; uint64_t counts[11]; uint32_t exceeded; } sram_v1;
typedef struct { uint32_t version; uint8_t cluster[16]; uint32_t status, clique, state, health; } fabric_v2;
typedef struct { uint32_t version, supported; } gpm_support;
typedef struct { char *a, *b, *c; } metric_info;
typedef struct { uint32_t id, rc; double value; metric_info info; } gpm_metric;
typedef struct { uint32_t version, count; void *before, *now; gpm_metric metrics[477]; } gpm_get;
typedef struct { uint32_t pid; uint64_t used; uint32_t gi, ci; } process_v3;
typedef struct { void *device; uint64_t kind, data; uint32_t gi, ci; } event_data;

static const char *NAMES[FUNCTIONS] = {
  "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetSerial", "nvmlDeviceGetVbiosVersion",
  "nvmlDeviceGetGspFirmwareVersion", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetNumaNodeId",
  "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount",
  "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceId",
  "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetFieldValues", "nvmlDeviceGetUtilizationRates",
  "nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetCurrentClocksEventReasons",
  "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", "nvmlDeviceGetMarginTemperature",
  "nvmlDeviceGetTemperatureThreshold", "nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerUsage",
  "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryErrorCounter",
  "nvmlDeviceGetRowRemapperHistogram", "nvmlDeviceGetSramEccErrorStatus",
  "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkWidth",
  "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkGeneration",
  "nvmlDeviceGetNvLinkState", "nvmlDeviceGetGpuFabricInfoV",
  "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet",
  "nvmlGpmMigSampleGet", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
};

static state *S;
static uint32_t found;         /* by nvmlInit */

static void wait_lock(void) { while (S && S->lock_hang) usleep(2000); }

static int number(const char *name) {
  for (int i = 0; i < FUNCTIONS && NAMES[i]; i++) if (!strcmp(NAMES[i], name)) return i;
  return FUNCTIONS - 1;
}

/* Handles point at the GPU or at one of its MIG devices. */
static mig *as_mig(void *handle, gpu **owner) {
  for (int i = 0; i < GPUS; i++) {
    char *first = (char *)S->gpus[i].migs;
    if ((char *)handle >= first && (char *)handle < first + sizeof S->gpus[i].migs) {
      *owner = &S->gpus[i];
      return handle;
    }
  }
  *owner = handle;
  return NULL;
}

static ret enter(void *handle, const char *name, gpu **g, mig **part) {
  wait_lock();
  *part = as_mig(handle, g);
  __sync_fetch_and_add(&S->calls, 1);
  while ((*g)->hang) usleep(2000);
  if ((*g)->delay_us) usleep((*g)->delay_us);
  if ((*g)->every_rc) return (*g)->every_rc;
  return (*g)->rc[number(name)];
}

#define ENTER(h) gpu *g; mig *part; ret rc_ = enter(h, __func__, &g, &part); (void)part; if (rc_) return rc_

static ret text(char *to, unsigned room, const char *from) {
  if (!*from) return UNSUPPORTED;
  if (strlen(from) >= room) return SHORT;
  strcpy(to, from);
  return OK;
}

ret nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  const char *path = getenv("NVML_MOCK_STATE");
  int fd = path ? open(path, O_RDWR) : -1;
  if (fd < 0) return 9;
  S = mmap(NULL, sizeof *S, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (S == MAP_FAILED || S->magic != 0x4c4d564e) return 999;
  wait_lock();
  found = S->count;
  return S->init_rc;
}
ret nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
ret nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(ret code) { (void)code; return "an error of the mock"; }
ret nvmlSystemGetDriverVersion(char *to, unsigned room) { wait_lock(); return text(to, room, S->driver); }
ret nvmlSystemGetNVMLVersion(char *to, unsigned room) { return text(to, room, S->version); }
ret nvmlSystemGetCudaDriverVersion_v2(int *to) { *to = S->cuda; return OK; }
ret nvmlDeviceGetCount_v2(unsigned *to) {
  wait_lock();
  if (S->noise) { dprintf(1, "NVRM: something\n{\"half\": \n"); }
  *to = S->settled ? found : S->count;
  return S->count_rc;
}
ret nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) {
  wait_lock();
  if (index >= S->count) return INVALID;
  gpu *g = &S->gpus[index];
  while (g->hang) usleep(2000);
  *to = g;
  return g->handle_rc;
}

ret nvmlDeviceGetUUID(void *h, char *to, unsigned room) { ENTER(h); return text(to, room, part ? part->uuid : g->uuid); }
ret nvmlDeviceGetName(void *h, char *to, unsigned room) { ENTER(h); return text(to, room, part ? part->name : g->name); }
ret nvmlDeviceGetSerial(void *h, char *to, unsigned room) { ENTER(h); return text(to, room, g->serial); }
ret nvmlDeviceGetVbiosVersion(void *h, char *to, unsigned room) { ENTER(h); return text(to, room, g->vbios); }
ret nvmlDeviceGetGspFirmwareVersion(void *h, char *to) { ENTER(h); return text(to, 64, g->firmware); }
ret nvmlDeviceGetMinorNumber(void *h, unsigned *to) { ENTER(h); *to = g->minor; return OK; }
ret nvmlDeviceGetNumaNodeId(void *h, int *to) { ENTER(h); if (g->numa < 0) return UNSUPPORTED; *to = g->numa; return OK; }
ret nvmlDeviceGetPciInfo_v3(void *h, pci_info *to) {
  ENTER(h);
  memset(to, 0, sizeof *to);
  strcpy(to->bus_id, g->bus_id);
  return OK;
}
ret nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *pending) {
  ENTER(h);
  if (g->mig_mode > 1) return UNSUPPORTED;
  *now = *pending = g->mig_mode;
  return OK;
}
ret nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *to) { ENTER(h); *to = MIGS; return OK; }
ret nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned index, void **to) {
  ENTER(h);
  if (index >= g->mig_count) return NOT_FOUND;
  *to = &g->migs[index];
  return OK;
}
ret nvmlDeviceGetGpuInstanceId(void *h, unsigned *to) { ENTER(h); if (!part) return INVALID; *to = part->gi; return OK; }
ret nvmlDeviceGetComputeInstanceId(void *h, unsigned *to) { ENTER(h); if (!part) return INVALID; *to = part->ci; return OK; }

ret nvmlDeviceGetFieldValues(void *h, int count, field_value *values) {
  ENTER(h);
  for (int i = 0; i < count; i++) {
    field_value *v = &values[i];
    if (v->fieldId >= FIELDS) { v->nvmlReturn = INVALID; continue; }
    v->nvmlReturn = g->field_rc[v->fieldId];
    v->valueType = g->field_type[v->fieldId];
    v->value = g->field[v->fieldId];
    if (v->scopeId < LINKS) v->value += g->link_field[v->scopeId][v->fieldId];
    v->timestamp = 1;
    v->latencyUsec = 1;
  }
  return OK;
}
ret nvmlDeviceGetUtilizationRates(void *h, utilization *to) {
  ENTER(h);
  if (part || g->mig_mode == 1) return UNSUPPORTED;
  to->gpu = g->util_gpu;
  to->memory = g->util_memory;
  return OK;
}
ret nvmlDeviceGetClockInfo(void *h, unsigned domain, unsigned *to) { ENTER(h); if (domain > 3) return INVALID; *to = g->clock[domain]; return OK; }
ret nvmlDeviceGetMaxClockInfo(void *h, unsigned domain, unsigned *to) { ENTER(h); if (domain > 3) return INVALID; *to = g->max_clock[domain]; return OK; }
ret nvmlDeviceGetCurrentClocksEventReasons(void *h, uint64_t *to) { ENTER(h); *to = g->reasons; return OK; }
ret nvmlDeviceGetTemperatureV(void *h, temperature_v1 *to) {
  ENTER(h);
  if (to->version != (sizeof *to | 1 << 24)) return MISMATCH;
  to->celsius = g->temperature;
  return OK;
}
ret nvmlDeviceGetTemperature(void *h, unsigned sensor, unsigned *to) { ENTER(h); (void)sensor; *to = g->temperature; return OK; }
ret nvmlDeviceGetMarginTemperature(void *h, margin_v1 *to) {
  ENTER(h);
  if (to->version != (sizeof *to | 1 << 24)) return MISMATCH;
  to->margin = g->margin;
  return OK;
}
ret nvmlDeviceGetTemperatureThreshold(void *h, unsigned limit, unsigned *to) {
  ENTER(h);
  if (limit > 3 || !g->threshold[limit]) return UNSUPPORTED;
  *to = g->threshold[limit];
  return OK;
}
ret nvmlDeviceGetPerformanceState(void *h, unsigned *to) { ENTER(h); *to = g->pstate; return OK; }
ret nvmlDeviceGetPowerUsage(void *h, unsigned *to) { ENTER(h); *to = g->power_usage; return OK; }
ret nvmlDeviceGetMemoryInfo_v2(void *h, memory_v2 *to) {
  ENTER(h);
  if (to->version != (sizeof *to | 2 << 24)) return MISMATCH;
  to->total = part ? part->total : g->total;
  to->reserved = part ? part->reserved : g->reserved;
  to->free = part ? part->free : g->free;
  to->used = part ? part->used : g->used;
  return OK;
}
ret nvmlDeviceGetMemoryInfo(void *h, memory_v1 *to) {
  ENTER(h);
  to->total = g->total;
  to->free = g->free;
  to->used = g->used;
  return OK;
}
ret nvmlDeviceGetMemoryErrorCounter(void *h, unsigned type, unsigned counter, unsigned location, uint64_t *to) {
  ENTER(h);
  if (type > 1 || counter > 1 || location > 7) return INVALID;
  if (!(g->ecc_location_present >> location & 1)) return UNSUPPORTED;
  *to = g->ecc[type][counter][location];
  return OK;
}
ret nvmlDeviceGetRowRemapperHistogram(void *h, banks *to) { ENTER(h); memcpy(to, g->banks, sizeof *to); return OK; }
ret nvmlDeviceGetSramEccErrorStatus(void *h, sram_v1 *to) {
  ENTER(h);
  if (to->version != (sizeof *to | 1 << 24)) return MISMATCH;
  to->exceeded = g->sram_exceeded;
  return OK;
}
ret nvmlDeviceGetCurrPcieLinkWidth(void *h, unsigned *to) { ENTER(h); *to = g->pcie_width; return OK; }
ret nvmlDeviceGetMaxPcieLinkWidth(void *h, unsigned *to) { ENTER(h); *to = g->pcie_width_max; return OK; }
ret nvmlDeviceGetCurrPcieLinkGeneration(void *h, unsigned *to) { ENTER(h); *to = g->pcie_gen; return OK; }
ret nvmlDeviceGetMaxPcieLinkGeneration(void *h, unsigned *to) { ENTER(h); *to = g->pcie_gen_max; return OK; }
ret nvmlDeviceGetNvLinkState(void *h, unsigned link, unsigned *to) {
  ENTER(h);
  if (link >= g->links) return INVALID;
  *to = g->link_up[link];
  return OK;
}
ret nvmlDeviceGetGpuFabricInfoV(void *h, fabric_v2 *to) {
  ENTER(h);
  if (to->version != (sizeof *to | 2 << 24)) return MISMATCH;
  to->state = g->fabric_state;
  to->status = g->fabric_status;
  to->health = g->fabric_health;
  return OK;
}
ret nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, process_v3 *to) {
  ENTER(h);
  unsigned room = *count;
  *count = g->processes;
  if (g->processes > room) return SHORT;
  for (unsigned i = 0; i < g->processes; i++) to[i] = (process_v3){1000 + i, 1 << 30, ~0u, ~0u};
  return OK;
}

/* A sample is the place where the activity was when it was taken, and its number. */
typedef struct { double *activity; gpu *of; uint32_t number; } sample;
ret nvmlGpmSampleAlloc(void **to) { *to = calloc(1, sizeof(sample)); return OK; }
ret nvmlGpmSampleFree(void *sample) { free(sample); return OK; }
ret nvmlGpmQueryDeviceSupport(void *h, gpm_support *to) { ENTER(h); to->supported = g->gpm_supported; return OK; }
ret nvmlGpmSampleGet(void *h, void *to) { ENTER(h); *(sample *)to = (sample){g->gpm, g, ++g->gpm_samples}; return OK; }
ret nvmlGpmMigSampleGet(void *h, unsigned instance, void *to) {
  ENTER(h);
  for (unsigned i = 0; i < g->mig_count; i++)
    if (g->migs[i].gi == instance) { *(sample *)to = (sample){g->migs[i].gpm, g, ++g->gpm_samples}; return OK; }
  return NOT_FOUND;
}
ret nvmlGpmMetricsGet(gpm_get *get) {
  if (get->version != 1) return MISMATCH;
  sample *before = get->before, *later = get->now;
  if (!before || !later || !before->activity || !later->activity) return INVALID;
  double *now = later->activity;
  later->of->gpm_window = later->number - before->number;
  for (unsigned i = 0; i < get->count; i++) {
    unsigned id = get->metrics[i].id;
    get->metrics[i].rc = id < GPM ? OK : UNSUPPORTED;
    get->metrics[i].value = id < GPM ? now[id] : 0;
  }
  return OK;
}

/* A set of events is which GPUs are registered. Events of others are lost, as in the driver. */
typedef struct { int registered[GPUS]; } event_set;
ret nvmlEventSetCreate(void **to) { wait_lock(); *to = calloc(1, sizeof(event_set)); return OK; }
ret nvmlEventSetFree(void *set) { free(set); return OK; }
ret nvmlDeviceGetSupportedEventTypes(void *h, uint64_t *to) { ENTER(h); *to = g->event_kinds; return OK; }
ret nvmlDeviceRegisterEvents(void *h, unsigned long long kinds, void *set) {
  ENTER(h);
  if (kinds & ~g->event_kinds) return UNSUPPORTED;
  ((event_set *)set)->registered[g - S->gpus] = 1;
  g->registrations++;
  return OK;
}
ret nvmlEventSetWait_v2(void *set, event_data *to, unsigned milliseconds) {
  for (unsigned waited = 0; waited < milliseconds || S->event_hang; waited += 50) {
    if (S->event_rc) return S->event_rc;
    while (!S->event_hang && S->events_taken != S->events_put) {
      event *e = &S->events[S->events_taken++ % EVENTS];
      if (!((event_set *)set)->registered[e->gpu]) continue;
      *to = (event_data){&S->gpus[e->gpu], e->kind, e->data, e->gi, e->ci};
      return OK;
    }
    usleep(50000);
  }
  return TIMEOUT;
}

/* For the tests: sizes of the state and of the structs, and the order of rc[]. */
size_t mock_sizeof(const char *name) {
#define SIZE(n, t) if (!strcmp(name, n)) return sizeof(t)
  SIZE("state", state); SIZE("gpu", gpu); SIZE("mig", mig);
  SIZE("c_nvmlFieldValue_t", field_value); SIZE("c_nvmlUtilization_t", utilization);
  SIZE("c_nvmlMemory_t", memory_v1); SIZE("c_nvmlMemory_v2_t", memory_v2);
  SIZE("c_nvmlTemperature_v1_t", temperature_v1); SIZE("c_nvmlMarginTemperature_v1_t", margin_v1);
  SIZE("nvmlPciInfo_t", pci_info); SIZE("c_nvmlRowRemapperHistogramValues", banks);
  SIZE("c_nvmlEccSramErrorStatus_v1_t", sram_v1); SIZE("c_nvmlGpuFabricInfo_v2_t", fabric_v2);
  SIZE("c_nvmlGpmSupport_t", gpm_support); SIZE("c_nvmlGpmMetric_t", gpm_metric);
  SIZE("c_nvmlGpmMetricsGet_t", gpm_get); SIZE("c_nvmlProcessInfo_v3_t", process_v3);
  SIZE("c_nvmlEventData_t", event_data); SIZE("event", event);
  return 0;
}
const char *mock_function(unsigned index) { return index < FUNCTIONS ? NAMES[index] : NULL; }
