// SPDX-License-Identifier: GPL-2.0
/* Seeded data: any byte of a pattern can be computed without those before it. */
#include <string.h>

#include "common.h"

/* The finaliser of SplitMix64 (Steele, Lea, Flood, 2014). */
uint64_t mix(uint64_t value)
{
	value ^= value >> 30;
	value *= 0xbf58476d1ce4e5b9ull;
	value ^= value >> 27;
	value *= 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

uint64_t next_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return mix(*state);
}

/* Word i covers bytes 8i to 8i+7. One multiplication: this runs for every byte
 * that a test moves, on an emulated CPU. */
static uint64_t word_at(uint64_t key, uint64_t index)
{
	uint64_t value = (key + index) * 0x9e3779b97f4a7c15ull;

	return value ^ value >> 29;
}

/* Copies the bytes of one word from its byte `skip` on, at most `room`. */
static size_t partial_word(uint64_t key, uint64_t offset, uint8_t *out, size_t room)
{
	uint64_t word = word_at(key, offset / 8);
	size_t skip = offset % 8, count = 8 - skip;

	if (count > room)
		count = room;
	memcpy(out, (uint8_t *)&word + skip, count);
	return count;
}

void pattern_fill(uint64_t key, uint64_t offset, void *data, size_t length)
{
	uint8_t *out = data;
	size_t count;

	while (length) {
		if (offset % 8 == 0 && length >= 8) {
			uint64_t word = word_at(key, offset / 8);

			memcpy(out, &word, 8);
			count = 8;
		} else {
			count = partial_word(key, offset, out, length);
		}
		out += count;
		offset += count;
		length -= count;
	}
}

int64_t pattern_differs(uint64_t key, uint64_t offset, const void *data, size_t length)
{
	const uint8_t *in = data;
	uint8_t wanted[8];
	size_t at = 0, count, i;

	while (at < length) {
		if ((offset + at) % 8 == 0 && length - at >= 8) {
			uint64_t word;

			memcpy(&word, in + at, 8);
			if (word == word_at(key, (offset + at) / 8)) {
				at += 8;
				continue;
			}
		}
		count = partial_word(key, offset + at, wanted, length - at);
		for (i = 0; i < count; i++)
			if (in[at + i] != wanted[i])
				return at + i;
		at += count;
	}
	return -1;
}
