// Histories: the typed arrays of each run, from the compressed block that the page holds.
// The layout is that of fedsim/addons/explorer/histories.py.

const TYPES = { Uint8Array, Uint16Array, Uint32Array, Float64Array };

/** Return the bytes of a text in base64, unpacked. */
async function unpackBlock(text) {
  const packed = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** Return the arrays of one run: views of the block, without a copy. */
function openHistory(block, places) {
  const views = Object.entries(places).map(([name, [type, begin, length]]) => [
    name,
    new TYPES[type](block, begin, length),
  ]);
  return Object.fromEntries(views);
}
