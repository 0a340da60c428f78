/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the test programs share: a device opened with its best GID, queue pairs
 * brought up to RTS, a TCP connection to exchange addresses, seeded data.
 *
 * Set-up that fails ends the program with a message: these are tests, and the
 * text on stderr with exit code 2 is what their reader needs.
 */
#ifndef U4R_TESTS_COMMON_H
#define U4R_TESTS_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Prints "PROGRAM: message[: strerror(err)]" and ends with exit code 2. */
void die(int err, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* Monotonic time in nanoseconds. */
uint64_t now_ns(void);

/* ---- rdma.c ---- */

struct device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
};

/* What the other side needs to reach a queue pair; sent as it is. */
struct qp_address {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t psn;
};

/* The timing of a connection, with the verbs' meanings and codes. */
struct qp_timing {
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
};

extern const struct qp_timing default_timing;

/* Opens a device by name (NULL: the first one) and picks the GID: index if it
 * is not negative, else the first RoCEv2 one that maps an IPv4 address. */
void device_open(struct device *dev, const char *name, int gid_index);
void device_close(struct device *dev);

/* Makes a queue pair in INIT with all remote rights. */
struct ibv_qp *qp_make(struct device *dev, struct ibv_qp_init_attr *init);
struct qp_address qp_address(const struct device *dev, const struct ibv_qp *qp);
/* INIT -> RTR -> RTS. Returns 0 or an errno. */
int qp_connect(const struct device *dev, struct ibv_qp *qp, uint32_t psn,
	       const struct qp_address *peer, const struct qp_timing *timing);
int qp_to_state(struct ibv_qp *qp, enum ibv_qp_state state);

/* Registers memory with all rights; ends the program if that fails. */
struct ibv_mr *mr_make(struct device *dev, void *addr, size_t length);

/* Waits up to timeout_ms for one completion. Returns whether there was one. */
bool wait_completion(struct ibv_cq *cq, struct ibv_wc *wc, int timeout_ms);

/* ---- bootstrap.c ---- */

/* A TCP connection to the other instance: host NULL listens for one. Both
 * directions time out after the given seconds, so a dead peer ends a test. */
int bootstrap(const char *host, int port, int timeout_s);
/* Sends ours and receives theirs, length bytes each; ends the program on error. */
void exchange(int fd, const void *ours, void *theirs, size_t length);
void send_all(int fd, const void *data, size_t length);
void receive_all(int fd, void *data, size_t length);
/* Returns when both sides have called it. */
void barrier(int fd);

/* ---- data.c ---- */

/* A number that looks random and depends on all bits of its argument. */
uint64_t mix(uint64_t value);
/* The next number of a sequence of its own. */
uint64_t next_random(uint64_t *state);

/* Byte i of the endless pattern of a key is a function of key and i only. */
void pattern_fill(uint64_t key, uint64_t offset, void *data, size_t length);
/* The index in data of the first byte that differs, or -1. */
int64_t pattern_differs(uint64_t key, uint64_t offset, const void *data, size_t length);

#endif
