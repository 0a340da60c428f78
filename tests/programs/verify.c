// SPDX-License-Identifier: GPL-2.0
/* u4r_verify: options and the report. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verify.h"

static const char usage[] =
	"usage: u4r_verify [options] [HOST]\n"
	"Run it without HOST on one machine, then with that machine's address on the other\n"
	"(or both on one machine, over loopback). Moves data both ways and compares it.\n"
	"  -d NAME    RDMA device (default: the first)\n"
	"  -x INDEX   GID index (default: the first RoCEv2 one of an IPv4 address)\n"
	"  -p PORT    TCP port of the bootstrap (18515)\n"
	"  -m MIB     MiB each way, all queue pairs together (256)\n"
	"  -M BYTES   longest message (8388608)\n"
	"  -q COUNT   queue pairs (1)\n"
	"  -D COUNT   messages in flight of a queue pair (4)\n"
	"  -g COUNT   scatter-gather entries of a message (1)\n"
	"  -o OPS     of s(end) w(rite) i(mmediate write) r(ead) (swir)\n"
	"  -i         messages that fit are sent inline\n"
	"  -u         unreliable connection (no reads)\n"
	"  -e         wait for events instead of polling\n"
	"  -s SEED    seed (default: from the clock; must be the same on both)\n"
	"  -t SECONDS give up after (600)\n"
	"  -w SECONDS give up without progress for (30)\n";

static void set_operations(struct options *options, const char *letters)
{
	static const char known[] = "swir";
	const char *at;

	memset(options->ops, 0, sizeof(options->ops));
	for (; *letters; letters++) {
		at = strchr(known, *letters);
		if (!at)
			die(0, "unknown operation %c", *letters);
		options->ops[at - known] = true;
	}
}

static uint64_t number(const char *text, uint64_t low, uint64_t high)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (*end || value < low || value > high)
		die(0, "%s is not a number from %" PRIu64 " to %" PRIu64, text, low, high);
	return value;
}

static void set_option(struct options *o, int letter, const char *value)
{
	switch (letter) {
	case 'd': o->device = value; break;
	case 'x': o->gid_index = number(value, 0, 255); break;
	case 'p': o->port = number(value, 1, 65535); break;
	case 'm': o->bytes = number(value, 1, 1 << 20) << 20; break;
	case 'M': o->max_size = number(value, 1, 64 << 20); break;
	case 'q': o->qps = number(value, 1, MAX_QPS); break;
	case 'D': o->depth = number(value, 1, MAX_DEPTH); break;
	case 'g': o->pieces = number(value, 1, MAX_PIECES); break;
	case 'o': set_operations(o, value); break;
	case 'i': o->use_inline = true; break;
	case 'u': o->uc = true; break;
	case 'e': o->events = true; break;
	case 's': o->seed = number(value, 0, UINT64_MAX); break;
	case 't': o->timeout_s = number(value, 1, 86400); break;
	case 'w': o->stall_s = number(value, 1, 86400); break;
	default:
		fputs(usage, stderr);
		exit(2);
	}
}

static struct options parse(int argc, char **argv)
{
	struct options o = {
		.gid_index = -1, .port = 18515, .seed = now_ns(), .bytes = 256 << 20,
		.qps = 1, .depth = 4, .max_size = 8 << 20, .pieces = 1,
		.ops = { true, true, true, true }, .timeout_s = 600, .stall_s = 30,
	};
	int letter;

	while ((letter = getopt(argc, argv, "d:x:p:m:M:q:D:g:o:s:t:w:iueh")) != -1)
		set_option(&o, letter, optarg);
	o.host = argv[optind];
	if (o.uc)
		o.ops[OP_READ] = false;
	if (!o.ops[OP_SEND] && !o.ops[OP_WRITE] && !o.ops[OP_WRITE_IMM] && !o.ops[OP_READ])
		die(0, "no operation is left");
	return o;
}

/* What must agree, or the plans differ and every comparison fails for nothing. */
static void agree(struct options *options, int fd)
{
	struct terms {
		uint64_t seed, bytes;
		uint32_t qps, depth, max_size, ops, uc, padding;
	} ours = {
		options->seed, options->bytes, options->qps, options->depth,
		options->max_size, 0, options->uc, 0,
	}, theirs;
	int i;

	for (i = 0; i < OP_COUNT; i++)
		ours.ops |= (uint32_t)options->ops[i] << i;
	exchange(fd, &ours, &theirs, sizeof(ours));
	/* The one that connects decides the seed. */
	if (!options->host)
		options->seed = theirs.seed;
	theirs.seed = ours.seed;
	if (memcmp(&ours, &theirs, sizeof(ours)))
		die(0, "the two instances were given different options");
}

static void report(const struct options *options, const struct totals *t, bool passed)
{
	printf("seed %" PRIu64 ", %u QP, %s, %s\n", options->seed, options->qps,
	       options->uc ? "UC" : "RC", options->events ? "events" : "polling");
	printf("sent %.1f MiB: %" PRIu64 " SEND, %" PRIu64 " WRITE, %" PRIu64 " WRITE_IMM; "
	       "%" PRIu64 " READ of them fetched\n", t->bytes_sent / 1048576.0,
	       t->sent[OP_SEND], t->sent[OP_WRITE], t->sent[OP_WRITE_IMM], t->sent[OP_READ]);
	printf("received %.1f MiB in %" PRIu64 " messages%s\n",
	       t->bytes_received / 1048576.0, t->received,
	       passed ? ", every byte compared" : "");
	printf("%.2f s, %.3f Gb/s each way\n", t->seconds,
	       t->seconds > 0 ? t->bytes_sent * 8 / t->seconds / 1e9 : 0);
	puts(passed ? "PASS" : "FAIL");
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct totals totals = {};
	struct device dev;
	bool passed;
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Whatever happens, and even if a system call hangs in the kernel. */
	alarm(options.timeout_s);
	device_open(&dev, options.device, options.gid_index);
	fd = bootstrap(options.host, options.port, options.timeout_s);
	agree(&options, fd);
	passed = verify_run(&dev, &options, fd, &totals);
	report(&options, &totals, passed);
	close(fd);
	if (passed)
		device_close(&dev);
	return passed ? 0 : 1;
}
