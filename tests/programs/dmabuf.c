// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: regions of DMA buffers, made from a program's pages (udmabuf). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/udmabuf.h>

#include "badinput.h"

#define SIZE	(8 * 4096)
#define OFFSET	4096

/* A DMA buffer of SIZE bytes that *memory shows as well; -1: not on this machine. */
static int make_buffer(uint8_t **memory)
{
	struct udmabuf_create create = { .size = SIZE };
	int device = open("/dev/udmabuf", O_RDWR), file = memfd_create("dmabuf", MFD_ALLOW_SEALING);
	int fd;

	if (device < 0 || file < 0)
		return -1;
	if (ftruncate(file, SIZE) || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK))
		die(errno, "memfd");
	create.memfd = file;
	fd = ioctl(device, UDMABUF_CREATE, &create);
	if (fd < 0)
		die(errno, "UDMABUF_CREATE");
	*memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (*memory == MAP_FAILED)
		die(errno, "mmap");
	close(file);
	close(device);
	return fd;
}

static void move(struct pair *pair, enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
		 uint64_t at, enum ibv_wc_status status)
{
	struct request request = {
		.opcode = opcode, .local = (uintptr_t)pair->buffer[0], .length = 10000,
		.lkey = pair->mr[0]->lkey, .remote = at, .rkey = mr->rkey,
	};

	expect(!post_request(pair->qp[0], &request));
	expect_status(pair->cq[0], status);
}

void dmabuf(struct device *dev)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	const uint64_t iova = 0x100000;
	uint8_t *memory;
	struct ibv_mr *mr;
	struct pair pair;
	int fd;

	/* So NCCL asks whether DMA buffers are there: any errno but EOPNOTSUPP means yes. */
	expect(!ibv_reg_dmabuf_mr(dev->pd, 0, 4096, 0, -1, rights) && errno == EBADF);
	fd = make_buffer(&memory);
	if (fd < 0)
		return skip("no udmabuf here");
	expect(!ibv_reg_dmabuf_mr(dev->pd, OFFSET, SIZE, iova, fd, rights) && errno == EINVAL);
	mr = ibv_reg_dmabuf_mr(dev->pd, OFFSET, SIZE - OFFSET, iova, fd, rights);
	expect(mr != NULL, "errno %d", errno);
	if (!mr)
		return;
	/* The region holds it. */
	close(fd);
	pair_open(&pair, dev, NULL);
	pattern_fill(31, 0, pair.buffer[0], 10000);
	move(&pair, IBV_WR_RDMA_WRITE, mr, iova + 5000, IBV_WC_SUCCESS);
	expect(pattern_differs(31, 0, memory + OFFSET + 5000, 10000) == -1);
	expect(!memory[OFFSET + 4999] && !memory[OFFSET + 15000]);
	pattern_fill(32, 0, memory + OFFSET + 7, 10000);
	move(&pair, IBV_WR_RDMA_READ, mr, iova + 7, IBV_WC_SUCCESS);
	expect(pattern_differs(32, 0, pair.buffer[0], 10000) == -1);
	/* From it, as the sender's own memory. */
	expect(!post_receive_at(pair.qp[1], 1, pair.buffer[1], 10000, pair.mr[1]->lkey));
	expect(!post_request(pair.qp[0], &(struct request){
		.opcode = IBV_WR_SEND, .local = iova + 7, .length = 10000, .lkey = mr->lkey }));
	expect_status(pair.cq[0], IBV_WC_SUCCESS);
	expect_status(pair.cq[1], IBV_WC_SUCCESS);
	expect(pattern_differs(32, 0, pair.buffer[1], 10000) == -1);
	move(&pair, IBV_WR_RDMA_WRITE, mr, iova + SIZE - OFFSET - 9999, IBV_WC_REM_ACCESS_ERR);
	pair_close(&pair);
	expect(!ibv_dereg_mr(mr));
	munmap(memory, SIZE);
}
