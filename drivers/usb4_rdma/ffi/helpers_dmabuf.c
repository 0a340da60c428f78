// SPDX-License-Identifier: GPL-2.0
/* DMA buffers: attached to the host router, so that they stay where they are, and
 * mapped for the CPU, which does the copying. */
#include "helpers_ib.h"

#include <linux/dma-buf.h>
#include <linux/iosys-map.h>
#include <linux/module.h>

MODULE_IMPORT_NS("DMA_BUF");

static int map(struct u4r_dmabuf *out, u64 offset)
{
	struct iosys_map map;
	int ret;

	ret = dma_buf_vmap_unlocked(out->buf, &map);
	if (ret)
		return ret;
	/* Memory of a device behind PCI wants other instructions than ours. */
	ret = map.is_iomem ? -EOPNOTSUPP :
			     dma_buf_begin_cpu_access(out->buf, DMA_BIDIRECTIONAL);
	if (ret) {
		dma_buf_vunmap_unlocked(out->buf, &map);
		return ret;
	}
	out->base = map.vaddr;
	out->address = map.vaddr + offset;
	return 0;
}

static int attach(struct u4r_dmabuf *out, struct device *parent, u64 offset)
{
	int ret;

	out->attachment = dma_buf_attach(out->buf, parent);
	if (IS_ERR(out->attachment))
		return PTR_ERR(out->attachment);
	/* A buffer that can move is pinned as long as it is mapped. */
	out->table = dma_buf_map_attachment_unlocked(out->attachment, DMA_BIDIRECTIONAL);
	ret = PTR_ERR_OR_ZERO(out->table);
	if (!ret) {
		ret = map(out, offset);
		if (!ret)
			return 0;
		dma_buf_unmap_attachment_unlocked(out->attachment, out->table,
						  DMA_BIDIRECTIONAL);
	}
	dma_buf_detach(out->buf, out->attachment);
	return ret;
}

int u4r_dmabuf_get(struct ib_device *device, int fd, u64 offset, u64 length,
		   struct u4r_dmabuf *out)
{
	struct dma_buf *buf = dma_buf_get(fd);
	int ret;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	out->buf = buf;
	if (!length || offset > buf->size || length > buf->size - offset)
		ret = -EINVAL;
	else
		ret = attach(out, device->dev.parent, offset);
	if (ret)
		dma_buf_put(buf);
	return ret;
}

void u4r_dmabuf_put(struct u4r_dmabuf *held)
{
	struct iosys_map map = IOSYS_MAP_INIT_VADDR(held->base);

	dma_buf_end_cpu_access(held->buf, DMA_BIDIRECTIONAL);
	dma_buf_vunmap_unlocked(held->buf, &map);
	dma_buf_unmap_attachment_unlocked(held->attachment, held->table, DMA_BIDIRECTIONAL);
	dma_buf_detach(held->buf, held->attachment);
	dma_buf_put(held->buf);
}
