// The study: the costs of all its runs under some values of the sliders, and the lowest ones.
// `study` is the data of the page, as fedsim/addons/explorer/page.py writes it.

/** Return the study that a page holds as JSON and a compressed block. */
async function openStudy(json, text) {
  const study = JSON.parse(json);
  for (const { groups, server } of study.fleets) {
    restoreInfinite(server);
    for (const { radio, device } of groups) [radio, device].forEach(restoreInfinite);
  }
  const block = await unpackBlock(text);
  for (const run of study.runs) run.arrays = run.history && openHistory(block, run.history);
  return study;
}

/** JSON has no infinity: it is the text "Infinity" there. */
function restoreInfinite(block) {
  for (const [field, value] of Object.entries(block)) if (value === "Infinity") block[field] = Infinity;
}

/** Return the groups and the server of a fleet with the moved constants in their places. */
function movedFleet(study, number, values) {
  const { groups, server } = study.fleets[number];
  const moved = groups.map(() => null);
  const link = { ...server };
  study.sliders.forEach((slider, index) => {
    if (values[index] === slider.value) return;
    if (slider.block === "network") link[slider.field] = values[index];
    for (const group of slider.places[number] ?? [])
      moved[group] = { ...moved[group], [`${slider.block}.${slider.field}`]: values[index] };
  });
  return { groups: groups.map((group, n) => movedGroup(group, moved[n])), server: link };
}

/**
 * Return the costs of every run: an array a cost, in it one a variant, in it one number a seed.
 *
 * A run that never reached the target costs infinity; NaN is one whose battery falls to a mark.
 */
function evaluate(study, values) {
  const fleets = study.fleets.map((_, number) => movedFleet(study, number, values));
  const invalid = fleets.flatMap(({ groups }) => groups.map(invalidGroup)).find(Boolean) ?? "";
  const ready = fleets.map(({ groups, server }) => fleetOf(groups, server));
  const costs = study.costs.map(() => study.variants.map(() => []));
  for (const run of study.runs) {
    const prices = run.arrays && priceRun(run.arrays, ready[study.variants[run.variant].fleet]);
    const figures = prices ? [prices.seconds, prices.joules, prices.grams] : [];
    costs.forEach((own, number) => {
      const cost = !prices ? Infinity : prices.fits && !invalid ? figures[number] : NaN;
      own[run.variant].push([run.seed, cost]);
    });
  }
  return { invalid, costs };
}

/** Return the mean of some numbers, or their median where some are infinite. */
function middle(numbers) {
  if (numbers.every(Number.isFinite)) return numbers.reduce((a, b) => a + b, 0) / numbers.length;
  const ordered = [...numbers].sort((a, b) => a - b);
  const half = (ordered.length - 1) / 2;
  return (ordered[Math.floor(half)] + ordered[Math.ceil(half)]) / 2;
}

/** Return what a variant typically costs: the geometric mean over its seeds; NaN if unknown. */
function typical(pairs) {
  return Math.exp(middle(pairs.map(([, cost]) => Math.log(cost))));
}

/** Return the typical ratio of the costs of two variants, by the seeds that both have. */
function ratio(pairs, others) {
  const known = new Map(others);
  const both = pairs.filter(([seed]) => known.has(seed));
  const logs = both.map(([seed, cost]) =>
    cost === known.get(seed) ? 0 : Math.log(cost) - Math.log(known.get(seed)));
  return Math.exp(middle(logs));
}

/** Return the number of the variant that takes the least; -1 if none is known. */
function leastOf(means) {
  let least = -1;
  means.forEach((mean, n) => {
    if (Number.isFinite(mean) && (least < 0 || mean < means[least])) least = n;
  });
  return least;
}

/** Return the numbers of the variants of the lowest and the next lowest typical cost; -1 if none. */
function nextToLeast(own) {
  const means = own.map(typical);
  const least = leastOf(means);
  return { least, next: leastOf(means.map((mean, n) => (n === least ? NaN : mean))) };
}

/** Return in how many seeds a variant costs less than another, and how many seeds both have. */
function agreement(pairs, others) {
  const known = new Map(others);
  const both = pairs.filter(([seed]) => known.has(seed));
  return [both.filter(([seed, cost]) => cost < known.get(seed)).length, both.length];
}
