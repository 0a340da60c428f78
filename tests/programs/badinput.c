// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: the table of cases, and their bookkeeping. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "badinput.h"

static const struct {
	const char *name;
	void (*run)(struct device *dev);
	bool on_request;	/* slow: only when named */
} cases[] = {
	{ "remote_keys", bad_remote_keys, false },
	{ "local_keys", bad_local_keys, false },
	{ "deregister_early", deregister_early, false },
	{ "entries", bad_entries, false },
	{ "full_queues", full_queues, false },
	{ "states", bad_states, false },
	{ "bad_wr", bad_wr_pointer, false },
	{ "flush_order", flush_order, false },
	{ "cq_overrun", cq_overrun, false },
	{ "destroyed_completions", destroyed_completions, false },
	{ "too_long", too_long, false },
	{ "receiver_not_ready", receiver_not_ready, false },
	{ "peer_gone", peer_gone, false },
	{ "unreliable", unreliable, false },
	{ "atomics", atomics, false },
	{ "send_ring", bad_send_ring, false },
	{ "receive_ring", bad_receive_ring, false },
	{ "completion_ring", bad_completion_ring, false },
	{ "limits", limits, false },
	{ "absent", absent, false },
	{ "resize_cq", resize_cq, false },
	{ "resize_armed_cq", resize_armed_cq, false },
	{ "rereg_mr", rereg_mr, false },
	{ "windows", windows, false },
	{ "dmabuf", dmabuf, false },
	{ "fence", fence, false },
	{ "solicited", solicited, false },
	{ "inline_data", inline_data, false },
	{ "object_counts", object_counts, true },
	{ "longest_message", longest_message, true },
};

static const char *running, *skipped;
static int failures;

void expect_at(const char *file, int line, bool holds, const char *text,
	       const char *format, ...)
{
	va_list args;

	if (holds)
		return;
	failures++;
	printf("  %s: %s:%d: expected %s", running, file, line, text);
	if (*format) {
		fputs(": ", stdout);
		va_start(args, format);
		vprintf(format, args);
		va_end(args);
	}
	putchar('\n');
}

void skip(const char *why)
{
	skipped = why;
}

static bool run_case(int number, struct device *dev)
{
	running = cases[number].name;
	skipped = NULL;
	failures = 0;
	cases[number].run(dev);
	if (failures)
		printf("FAIL %s\n", running);
	else if (skipped)
		printf("skip %s: %s\n", running, skipped);
	else
		printf("ok %s\n", running);
	return !failures;
}

static bool run_named(const char *name, struct device *dev)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		if (!strcmp(cases[i].name, name))
			return run_case(i, dev);
	die(0, "no case is called %s (-l lists them)", name);
}

static bool run_remote(struct device *dev, const char *host, int port)
{
	running = "remote";
	failures = 0;
	remote(dev, host, port);
	printf("%s remote\n", failures ? "FAIL" : "ok");
	return !failures;
}

static void usage(void)
{
	fputs("usage: u4r_badinput [-d DEVICE] [-x GID] [-t SECONDS] [-l] [CASE...]\n"
	      "       u4r_badinput [-d DEVICE] [-x GID] [-p PORT] -r | -R HOST\n"
	      "Without a case all quick ones run. -r waits for the other host's -R.\n", stderr);
	exit(2);
}

int main(int argc, char **argv)
{
	const char *device = NULL, *host = NULL;
	int letter, gid_index = -1, port = 18516, seconds = 300;
	bool passed = true, two_hosts = false;
	struct device dev;
	size_t i;

	while ((letter = getopt(argc, argv, "d:x:t:p:rR:lh")) != -1) {
		switch (letter) {
		case 'd': device = optarg; break;
		case 'x': gid_index = atoi(optarg); break;
		case 't': seconds = atoi(optarg); break;
		case 'p': port = atoi(optarg); break;
		case 'R': host = optarg; /* fall through */
		case 'r': two_hosts = true; break;
		case 'l':
			for (i = 0; i < ARRAY_SIZE(cases); i++)
				puts(cases[i].name);
			return 0;
		default: usage();
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(seconds);
	device_open(&dev, device, gid_index);
	if (two_hosts)
		passed = run_remote(&dev, host, port);
	for (i = optind; i < (size_t)argc; i++)
		passed &= run_named(argv[i], &dev);
	for (i = 0; i < ARRAY_SIZE(cases) && optind == argc && !two_hosts; i++)
		if (!cases[i].on_request)
			passed &= run_case(i, &dev);
	device_close(&dev);
	puts(passed ? "PASS" : "FAIL");
	return passed ? 0 : 1;
}
