// SPDX-License-Identifier: GPL-2.0
/* The TCP connection over which two instances find each other. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

static void set_timeout(int fd, int seconds)
{
	struct timeval limit = { .tv_sec = seconds };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static int accept_one(int port, int timeout_s)
{
	struct sockaddr_storage address = {};
	int listener, fd, on = 1, off = 0;
	struct addrinfo hints = {
		.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE,
	}, *info;
	char service[12];
	socklen_t length;

	snprintf(service, sizeof(service), "%d", port);
	if (getaddrinfo(NULL, service, &hints, &info))
		die(0, "no address to listen at");
	memcpy(&address, info->ai_addr, info->ai_addrlen);
	length = info->ai_addrlen;
	freeaddrinfo(info);
	listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0)
		die(errno, "socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	set_timeout(listener, timeout_s);
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1))
		die(errno, "cannot listen at port %d", port);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		die(errno, "nobody came to port %d", port);
	close(listener);
	return fd;
}

/* The other instance may come up a little later: tried until the time is over. */
static int connect_to(const char *host, int port, int timeout_s)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *info;
	uint64_t until = now_ns() + timeout_s * 1000000000ull;
	char service[12];
	int fd, err;

	snprintf(service, sizeof(service), "%d", port);
	err = getaddrinfo(host, service, &hints, &info);
	if (err)
		die(0, "%s: %s", host, gai_strerror(err));
	do {
		fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			die(errno, "socket");
		set_timeout(fd, timeout_s);
		if (!connect(fd, info->ai_addr, info->ai_addrlen)) {
			freeaddrinfo(info);
			return fd;
		}
		err = errno;
		close(fd);
		usleep(100000);
	} while (now_ns() < until);
	die(err, "cannot connect to %s port %d", host, port);
}

int bootstrap(const char *host, int port, int timeout_s)
{
	int fd = host ? connect_to(host, port, timeout_s) : accept_one(port, timeout_s);

	set_timeout(fd, timeout_s);
	return fd;
}

void send_all(int fd, const void *data, size_t length)
{
	const char *at = data;

	while (length) {
		ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);

		if (sent <= 0)
			die(errno, "the other instance is gone");
		at += sent;
		length -= sent;
	}
}

void receive_all(int fd, void *data, size_t length)
{
	char *at = data;

	while (length) {
		ssize_t got = recv(fd, at, length, 0);

		if (got == 0)
			die(0, "the other instance closed the connection");
		if (got < 0)
			die(errno, "no word from the other instance");
		at += got;
		length -= got;
	}
}

void exchange(int fd, const void *ours, void *theirs, size_t length)
{
	send_all(fd, ours, length);
	receive_all(fd, theirs, length);
}

void barrier(int fd)
{
	char token = 'B', answer;

	exchange(fd, &token, &answer, 1);
	if (answer != 'B')
		die(0, "the other instance is at another step");
}
