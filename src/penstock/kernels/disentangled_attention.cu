// Disentangled attention (DeBERTa v2 and v3) over packed sequences, forward only, heads of 64.
//
//   score(i, j) = q_i . k_j + q_i . PK[i - j] + k_j . PQ[i - j];  softmax over j;  times V
//
// PK and PQ are the projected relative-position rows, expanded from buckets to distances: [heads][2 R][64], row d + R for
// distance d. Distances of `constant_from` and more share one row, and so do those below -`constant_from`; so the tables
// end soon after that, whatever the length of a sequence.
//
// One block computes 128 queries of one head, 32 keys at a time. In such a tile the distances form a band of 159: row i
// of the content-to-position scores needs 63 of them, and the next tile needs the same ones moved by 32. So 32 new
// columns per tile are computed as a matrix product, kept in a ring in shared memory, and read along the diagonal. The
// position-to-content scores belong to the keys of the tile: 32 keys times the band, computed once for the four warps.
// Reading along the diagonal in shared memory replaces the gathers from global memory that bound other kernels.
//
// Compiled by NVRTC without any header; BF16 chooses the element type.
typedef unsigned int u32;
typedef unsigned short elem;

#define QUERIES 128
#define KEYS 32
#define DIM 64
#define ROW 72                    // elements from row to row of a tile: 144 bytes, so that ldmatrix has no bank conflict
#define TILE (32 * ROW)
#define C_ROW 72                  // of the content-to-position ring (64 columns in use)
#define P_ROW 168                 // of the position-to-content table (160 columns in use)

#ifdef BF16
#define TYPE "bf16"
__device__ __forceinline__ float sum_of(elem a, elem b) { return __uint_as_float((u32)a << 16) + __uint_as_float((u32)b << 16); }
#else
#define TYPE "f16"
__device__ __forceinline__ float sum_of(elem a, elem b) {
  elem s; float f;
  asm("add.f16 %0, %1, %2;" : "=h"(s) : "h"(a), "h"(b));
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(s));
  return f;
}
#endif

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 r; asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r;
}
__device__ __forceinline__ float power_of_two(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ void load4(u32 (&r)[4], const elem* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
}
__device__ __forceinline__ void load4_transposed(u32 (&r)[4], const elem* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
}
__device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;"); }
template <int PENDING> __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(PENDING)); }

// Begin to copy 32 rows of 64 elements to shared memory; rows past `last` repeat it.
__device__ __forceinline__ void copy32(elem* to, const elem* from, long long stride, int row0, int last) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int c = threadIdx.x + part * 128, r = c >> 3, d = (c & 7) * 8, row = min(row0 + r, last);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + r * ROW + d)), "l"(from + row * stride + d));
  }
}

extern "C" __global__ void __launch_bounds__(128, 2) disentangled_attention(
    const elem* __restrict__ q, const elem* __restrict__ k, const elem* __restrict__ v, long long stride,
    const elem* __restrict__ position_key, const elem* __restrict__ position_query, int reach, int constant_from,
    elem* __restrict__ out, long long out_stride,
    const int* __restrict__ starts, const int* __restrict__ lengths, const int* __restrict__ first_queries, float scale) {
  extern __shared__ elem memory[];
  elem* keys = memory;                         // [32][ROW]
  elem* values = keys + TILE;                  // [2][32][ROW]
  elem* ring_pk = values + 2 * TILE;           // [4][32][ROW]
  elem* ring_pq = ring_pk + 4 * TILE;          // [5][32][ROW]
  elem* table_c = ring_pq + 5 * TILE;          // [128][C_ROW]
  elem* table_p = table_c + QUERIES * C_ROW;   // [32][P_ROW]
  const int head = blockIdx.y, start = starts[blockIdx.x], length = lengths[blockIdx.x], i0 = first_queries[blockIdx.x];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int tiles = (length + KEYS - 1) / KEYS, last = length - 1, rows = 2 * reach;
  q += start * stride + head * DIM, k += start * stride + head * DIM, v += start * stride + head * DIM;
  position_key += (long long)head * rows * DIM, position_query += (long long)head * rows * DIM;
  // First row of position block b: distances i0 - 31 + 32 b and up. Tile n uses the blocks from -n on.
  auto block_row = [&](int b) { return min(max(i0 - 31 + 32 * b + reach, 0), rows - 32); };
  // Where a lane reads operands for `multiply`: A from rows of queries or keys, B from rows of keys or positions.
  const int a_at = (lane & 15) * ROW + (lane >> 4) * 8;
  const int b_at = ((lane & 7) + ((lane >> 4) << 3)) * ROW + ((lane >> 3) & 1) * 8;
  const int b8_at = (lane & 7) * ROW + (lane >> 3) * 8;

#pragma unroll
  for (int b = 0; b < 4; ++b) copy32(table_c + b * TILE, q, stride, i0 + 32 * b, last);  // on the way to registers
#pragma unroll
  for (int b = 1; b < 5; ++b) copy32(ring_pk + (b & 3) * TILE, position_key, DIM, block_row(b), rows - 1);
  commit();
  copy32(keys, k, stride, 0, last);
  copy32(values, v, stride, 0, last);
#pragma unroll
  for (int b = 0; b < 5; ++b) copy32(ring_pq + b * TILE, position_query, DIM, block_row(b), rows - 1);
  commit();
  wait<1>();
  __syncthreads();
  u32 query[2][4][4];
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int s = 0; s < 4; ++s) load4(query[m][s], table_c + (warp * 32 + m * 16) * ROW + s * 16 + a_at);
  __syncthreads();

  elem* my_c = table_c + warp * 32 * C_ROW;
  auto content_to_position = [&](const elem* block, int column) {  // 32 queries of this warp times 32 positions
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float c[2][2][4] = {};
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        u32 b[4];
        load4(b, block + n * 16 * ROW + s * 16 + b_at);
#pragma unroll
        for (int m = 0; m < 2; ++m) multiply(c[m][0], query[m][s], b[0], b[1]), multiply(c[m][1], query[m][s], b[2], b[3]);
      }
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          elem* to = my_c + (m * 16 + g) * C_ROW + column + n * 16 + x * 8 + 2 * t;
          *(u32*)to = pack(c[m][x][0], c[m][x][1]), *(u32*)(to + 8 * C_ROW) = pack(c[m][x][2], c[m][x][3]);
        }
    }
  };
  content_to_position(ring_pk + ((warp + 1) & 3) * TILE, 32);  // what a tile before the first would have left
  __syncthreads();
  copy32(ring_pk, position_key, DIM, block_row(0), rows - 1);
  commit();
  wait<0>();
  __syncthreads();

  float o[2][8][4] = {}, top[2][2] = {{-1e30f, -1e30f}, {-1e30f, -1e30f}}, sum[2][2] = {};
  int slot0 = 0;  // where position block 0 of this tile is in ring_pq
  for (int tile = 0; tile < tiles; ++tile) {
    const int turn = tile & 1, j0 = tile * KEYS, lowest = i0 - j0 - 31, highest = lowest + 158;
    // Far from the diagonal all distances share one row: the ring holds the scores already, and one column is enough.
    const bool is_far = lowest >= constant_from || highest < -constant_from;
    if (!(is_far && tile > 0 && (lowest > 0 || highest + 64 < -constant_from)))
      content_to_position(ring_pk + ((warp - tile) & 3) * TILE, turn * 32);
    {  // position to content: 32 keys times the 40 positions of this warp
      u32 key[2][4][4];
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int s = 0; s < 4; ++s) load4(key[m][s], keys + m * 16 * ROW + s * 16 + a_at);
#pragma unroll
      for (int n = 0; n < 5; ++n) {
        if (n > 0 && is_far) break;
        const int p = warp * 40 + n * 8, behind = slot0 + (p >> 5);
        const elem* from = ring_pq + (behind >= 5 ? behind - 5 : behind) * TILE + (p & 31) * ROW + b8_at;
        float c[2][4] = {};
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          u32 b[4];
          load4(b, from + s * 32);
#pragma unroll
          for (int m = 0; m < 2; ++m) multiply(c[m], key[m][2 * s], b[0], b[1]), multiply(c[m], key[m][2 * s + 1], b[2], b[3]);
        }
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          elem* to = table_p + (m * 16 + g) * P_ROW + p + 2 * t;
          *(u32*)to = pack(c[m][0], c[m][1]), *(u32*)(to + 8 * P_ROW) = pack(c[m][2], c[m][3]);
        }
      }
    }
    float s[2][4][4] = {};
#pragma unroll
    for (int n = 0; n < 4; n += 2)
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        u32 b[4];
        load4(b, keys + n * 8 * ROW + x * 16 + b_at);
#pragma unroll
        for (int m = 0; m < 2; ++m) multiply(s[m][n], query[m][x], b[0], b[1]), multiply(s[m][n + 1], query[m][x], b[2], b[3]);
      }
    __syncthreads();  // the table is complete; keys and the last position blocks are free
    if (tile + 1 < tiles) {
      copy32(keys, k, stride, j0 + KEYS, last);
      copy32(values + (turn ^ 1) * TILE, v, stride, j0 + KEYS, last);
      copy32(ring_pk + ((-tile - 1) & 3) * TILE, position_key, DIM, block_row(-tile - 1), rows - 1);
      slot0 = slot0 == 0 ? 4 : slot0 - 1;
      copy32(ring_pq + slot0 * TILE, position_query, DIM, block_row(-tile - 1), rows - 1);
      commit();
    }
    const elem* my_p = is_far ? table_p + warp * 40 : table_p + warp * 32;
    const int mask = is_far ? 0 : -1, flip = turn * 32;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      float top0 = top[m][0], top1 = top[m][1];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = m * 16 + g + (e >> 1) * 8, j = n * 8 + 2 * t + (e & 1), w = i - j + 31;
          s[m][n][e] += sum_of(my_c[i * C_ROW + (w ^ flip)], my_p[j * P_ROW + (w & mask)]);
          if (j0 + j >= length) s[m][n][e] = -1e30f;
        }
        top0 = fmaxf(top0, fmaxf(s[m][n][0], s[m][n][1])), top1 = fmaxf(top1, fmaxf(s[m][n][2], s[m][n][3]));
      }
      top0 = fmaxf(top0, __shfl_xor_sync(~0u, top0, 1)), top0 = fmaxf(top0, __shfl_xor_sync(~0u, top0, 2));
      top1 = fmaxf(top1, __shfl_xor_sync(~0u, top1, 1)), top1 = fmaxf(top1, __shfl_xor_sync(~0u, top1, 2));
      const float less0 = power_of_two((top[m][0] - top0) * scale), less1 = power_of_two((top[m][1] - top1) * scale);
      top[m][0] = top0, top[m][1] = top1, sum[m][0] *= less0, sum[m][1] *= less1;
      top0 *= scale, top1 *= scale;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        s[m][n][0] = power_of_two(s[m][n][0] * scale - top0), s[m][n][1] = power_of_two(s[m][n][1] * scale - top0);
        s[m][n][2] = power_of_two(s[m][n][2] * scale - top1), s[m][n][3] = power_of_two(s[m][n][3] * scale - top1);
        sum[m][0] += s[m][n][0] + s[m][n][1], sum[m][1] += s[m][n][2] + s[m][n][3];
      }
#pragma unroll
      for (int n = 0; n < 8; ++n) o[m][n][0] *= less0, o[m][n][1] *= less0, o[m][n][2] *= less1, o[m][n][3] *= less1;
    }
    const elem* value = values + turn * TILE + a_at;
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      u32 a[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        a[m][0] = pack(s[m][2 * x][0], s[m][2 * x][1]), a[m][1] = pack(s[m][2 * x][2], s[m][2 * x][3]);
        a[m][2] = pack(s[m][2 * x + 1][0], s[m][2 * x + 1][1]), a[m][3] = pack(s[m][2 * x + 1][2], s[m][2 * x + 1][3]);
      }
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        u32 b[4];
        load4_transposed(b, value + x * 16 * ROW + n * 8);
#pragma unroll
        for (int m = 0; m < 2; ++m) multiply(o[m][n], a[m], b[0], b[1]), multiply(o[m][n + 1], a[m], b[2], b[3]);
      }
    }
    wait<0>();
    __syncthreads();
  }
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int y = 0; y < 2; ++y) {
      float z = sum[m][y];
      z += __shfl_xor_sync(~0u, z, 1), z += __shfl_xor_sync(~0u, z, 2);
      z = 1.f / z;
      const int row = i0 + warp * 32 + m * 16 + g + y * 8;
      if (row < length) {
        elem* to = out + (start + row) * out_stride + head * DIM + 2 * t;
#pragma unroll
        for (int n = 0; n < 8; ++n) *(u32*)(to + n * 8) = pack(o[m][n][2 * y] * z, o[m][n][2 * y + 1] * z);
      }
    }
}
