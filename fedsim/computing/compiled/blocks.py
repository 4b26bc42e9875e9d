"""Products of four dense rows with the columns of a model, and back.

A model of m columns lies transposed, (m, d), so that all loops run over contiguous numbers. Four
rows are taken at once, for then each number of the model is loaded once for all of them; two
columns, for then each of the rows is.
"""

from fedsim.computing.compiled.compiler import part
from fedsim.ports import Array


@part
def forward(x0: Array, x1: Array, x2: Array, x3: Array, W: Array, A: Array) -> None:
    """Set A, shape (4, m), to the products of four rows (d,) with W, shape (m, d)."""
    m, d = W.shape
    for c in range(0, m - 1, 2):
        v, w = W[c], W[c + 1]
        zero = W.dtype.type(0)
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
        for k in range(d):
            a0 += x0[k] * v[k]
            a1 += x1[k] * v[k]
            a2 += x2[k] * v[k]
            a3 += x3[k] * v[k]
            b0 += x0[k] * w[k]
            b1 += x1[k] * w[k]
            b2 += x2[k] * w[k]
            b3 += x3[k] * w[k]
        A[0, c], A[1, c], A[2, c], A[3, c] = a0, a1, a2, a3
        A[0, c + 1], A[1, c + 1], A[2, c + 1], A[3, c + 1] = b0, b1, b2, b3
    if m % 2:
        _forward_last(x0, x1, x2, x3, W[m - 1], A)


@part
def _forward_last(x0: Array, x1: Array, x2: Array, x3: Array, w: Array, A: Array) -> None:
    c = A.shape[1] - 1
    a0 = a1 = a2 = a3 = w.dtype.type(0)
    for k in range(len(w)):
        a0 += x0[k] * w[k]
        a1 += x1[k] * w[k]
        a2 += x2[k] * w[k]
        a3 += x3[k] * w[k]
    A[0, c], A[1, c], A[2, c], A[3, c] = a0, a1, a2, a3


@part
def backward(x0: Array, x1: Array, x2: Array, x3: Array, S: Array, G: Array) -> None:
    """Add to G, shape (m, d), the sum of S[r, c] x_r over four rows (d,), S of shape (4, m)."""
    m, d = G.shape
    for c in range(0, m - 1, 2):
        g, h = G[c], G[c + 1]
        s0, s1, s2, s3 = S[0, c], S[1, c], S[2, c], S[3, c]
        t0, t1, t2, t3 = S[0, c + 1], S[1, c + 1], S[2, c + 1], S[3, c + 1]
        for k in range(d):
            g[k] += s0 * x0[k] + s1 * x1[k] + s2 * x2[k] + s3 * x3[k]
            h[k] += t0 * x0[k] + t1 * x1[k] + t2 * x2[k] + t3 * x3[k]
    if m % 2:
        g, c = G[m - 1], m - 1
        s0, s1, s2, s3 = S[0, c], S[1, c], S[2, c], S[3, c]
        for k in range(d):
            g[k] += s0 * x0[k] + s1 * x1[k] + s2 * x2[k] + s3 * x3[k]
