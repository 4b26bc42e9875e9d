// The recursion of rounds: time, energy and emissions of a run under the constants of a fleet.
// It is fedsim/addons/robustness/recursion.py in one world, in the same order of operations, so that both
// differ by rounding alone. Entries are classes of equal clients (histories.py), each with a count.

const ROUNDING = 1e-14; // relative to the time: times that differ by less do so by rounding alone
const BEGINNINGS = 4; // exchanges kept for each load: rounds may alternate between two begins

/**
 * Return the costs of a run.
 *
 * history: its typed arrays (history.js).
 * fleet: its clients by group, and its links (fleet.js).
 *
 * The costs of an exchange follow from its load and from the time since each radio was active:
 * whether its tail still runs. Both soon repeat from round to round, so the last few exchanges of
 * each load are kept, and one that begins alike is not computed again. Times within an exchange are
 * relative to its begin, which is what makes them repeat.
 */
function priceRun(history, fleet) {
  const { group, counts, first, task_class, sequence } = history;
  const clients = Array.from(group, (each) => fleet.clients[each]);
  const last = new Float64Array(group.length).fill(-Infinity); // time of the last bit of each radio
  const spent = new Float64Array(group.length); // J, beyond idle power
  const scratch = scratchOf(group.length);
  const { since } = scratch;
  const kept = Array.from({ length: first.length - 1 }, () => []); // by load
  let now = 0;
  for (const load of sequence) {
    const begin = first[load];
    const size = first[load + 1] - begin;
    for (let n = 0; n < size; n++) since[n] = now - last[task_class[begin + n]];
    let costs = findKept(kept[load], since, ROUNDING * now);
    if (!costs) {
      costs = exchangeCosts(history, fleet, clients, load, scratch);
      kept[load].push(costs);
      if (kept[load].length > BEGINNINGS) kept[load].shift();
    }
    for (let n = 0; n < size; n++) {
      const own = task_class[begin + n];
      last[own] = now + costs.came[n];
      spent[own] += costs.spent[n];
    }
    now += costs.duration;
  }
  return totals(clients, counts, now, last, spent);
}

/** Return a kept exchange in which radios begin in the same state, up to rounding, s. */
function findKept(kept, since, error) {
  for (const costs of kept) {
    let n = 0;
    while (n < costs.since.length && isNear(costs.since[n], since[n], error)) n++;
    if (n === costs.since.length) return costs;
  }
  return null;
}

function isNear(one, other, error) {
  return one === other || Math.abs(one - other) <= error; // equal are also two infinities
}

/** Return arrays that every exchange of a run uses again: most of the time went into their making. */
function scratchOf(size) {
  const own = { cohort: new Array(size), order: new Uint32Array(size), ended: new Uint8Array(size) };
  const names = ["since", "counts", "down", "up", "works", "ready", "active", "began", "caps", "left"];
  for (const name of names) own[name] = new Float64Array(size);
  return own;
}

/** Let a cohort receive, compute and reply; return what it takes. */
function exchangeCosts(history, fleet, clients, load, scratch) {
  const { group, first, task_class, task_kind, kinds } = history;
  const { cohort, counts, down, up, works, ready, active } = scratch;
  const begin = first[load];
  const size = first[load + 1] - begin;
  const since = scratch.since.slice(0, size);
  const spent = new Float64Array(size);
  cohort.length = size;
  for (let n = 0; n < size; n++) {
    const own = task_class[begin + n];
    const client = clients[own];
    const kind = 4 * task_kind[begin + n];
    cohort[n] = client;
    counts[n] = history.counts[own];
    down[n] = framed(kinds[kind], client);
    up[n] = framed(kinds[kind + 1], client);
    works[n] = client.perOperation * kinds[kind + 2] + client.perSample * kinds[kind + 3];
    ready[n] = 0;
    active[n] = -since[n];
  }
  const place = (n) => group[task_class[begin + n]];
  const received = leg(fleet, "down", scratch, place, ready, active, spent);
  for (let n = 0; n < size; n++) {
    spent[n] += cohort[n].working * works[n];
    ready[n] = received[n] + works[n];
  }
  const came = leg(fleet, "up", scratch, place, ready, received, spent);
  let duration = -Infinity;
  for (let n = 0; n < size; n++) duration = Math.max(duration, came[n]);
  return { since, came, spent, duration };
}

/** Return the bits of a message with the framing of its packets. */
function framed(bits, { framing, packet }) {
  return bits + 8 * framing * Math.ceil(bits / (8 * (packet - framing)));
}

/**
 * Send a message of each client in one direction; return its arrival.
 *
 * `ready` is when each message is ready, `active` the time of the last bit before it. A radio that
 * is still in its tail sends at once; its tail has lasted from its last bit until the new bits flow.
 * One that went idle pays its whole tail and a promotion; it is then connected, without bits, for
 * the latency. At the first message of a run there is no last bit, hence no tail before it.
 */
function leg(fleet, way, scratch, place, ready, active, spent) {
  const { cohort, began } = scratch;
  const bits = scratch[way];
  const size = spent.length;
  const over = new Float64Array(size);
  for (let n = 0; n < size; n++) {
    const client = cohort[n];
    const { latency } = client[way];
    if (!fleet.stateful) {
      began[n] = ready[n] + latency;
      continue;
    }
    const connected = ready[n] <= active[n] + client.tailTime;
    began[n] = (connected ? ready[n] : ready[n] + client.promotionTime) + latency;
    const seen = Number.isFinite(active[n]);
    const before = seen ? active[n] : ready[n] - client.tailTime;
    let tail = connected ? began[n] - before : client.tailTime + latency;
    if (!seen && !connected) tail -= client.tailTime;
    spent[n] += client.tailPower * tail;
    if (!connected) spent[n] += client.promotionPower * client.promotionTime;
  }
  if (fleet[way].contended) shareLink(fleet[way], way, scratch, place, over);
  else for (let n = 0; n < size; n++) over[n] = began[n] + bits[n] / cohort[n][way].rate;
  for (let n = 0; n < size; n++) {
    const { perBit, power } = cohort[n][way];
    spent[n] += perBit * bits[n] + power * (over[n] - began[n]);
  }
  return over;
}

/**
 * Find the end of each transfer over a link that all share max-min fairly.
 *
 * A change is the begin or the end of a transfer; rates are constant in between, so there are at
 * most two changes an entry.
 */
function shareLink(link, way, scratch, place, over) {
  const { cohort, began, caps, left, ended } = scratch;
  const size = over.length;
  let [going, now] = [size, Infinity];
  for (let n = 0; n < size; n++) {
    caps[n] = cohort[n][way].rate;
    left[n] = scratch[way][n];
    ended[n] = 0;
    now = Math.min(now, began[n]);
  }
  sortByCap(link.order, scratch.order, place, size);
  while (going) {
    const level = fairLevel(link.capacity, scratch, size, now);
    let [step, next] = [Infinity, Infinity];
    for (let n = 0; n < size; n++) {
      if (ended[n]) continue;
      if (began[n] > now) next = Math.min(next, began[n]);
      else step = Math.min(step, left[n] <= 0 ? 0 : left[n] / Math.min(caps[n], level));
    }
    step = Math.min(step, next - now);
    // A begin is set to its exact time: now + (begin - now) may round to a time just before it.
    const then = next - now <= step ? next : now + step;
    for (let n = 0; n < size; n++) {
      if (ended[n] || began[n] > now) continue;
      const rate = Math.min(caps[n], level);
      if (left[n] <= 0 || left[n] / rate <= step) {
        over[n] = then;
        ended[n] = 1;
        going -= 1;
      }
      left[n] = Math.max(left[n] - rate * step, 0);
    }
    now = then;
  }
}

/** Put the entries of a cohort in ascending order of their caps, which are those of their groups. */
function sortByCap(groups, order, place, size) {
  const next = new Uint32Array(groups.length + 1); // first the sizes of groups, then their places
  const rank = new Uint32Array(groups.length);
  groups.forEach((group, number) => (rank[group] = number));
  for (let n = 0; n < size; n++) next[rank[place(n)] + 1] += 1;
  for (let n = 1; n <= groups.length; n++) next[n] += next[n - 1];
  for (let n = 0; n < size; n++) order[next[rank[place(n)]]++] = n;
}

/**
 * Return the rate above which no transfer gets, infinite if the link is wide enough.
 *
 * In ascending order of their caps, each leaves its cap; from the first one on whose cap exceeds an
 * equal share of the rest of the capacity, all run at that share.
 */
function fairLevel(capacity, { order, began, ended, caps, counts }, size, now) {
  let rest = 0;
  for (let n = 0; n < size; n++) if (!ended[n] && began[n] <= now) rest += counts[n];
  let free = capacity;
  for (let k = 0; k < size; k++) {
    const n = order[k];
    if (ended[n] || began[n] > now) continue;
    const share = free / rest;
    if (caps[n] > share) return share;
    free -= caps[n] * counts[n];
    rest -= counts[n];
  }
  return Infinity;
}

/**
 * Return seconds, joules and grams of a run, and whether every battery stays above its marks.
 *
 * The run ends now, and its radios go to sleep: a tail that is still running counts to its end.
 */
function totals(clients, counts, now, last, spent) {
  let [rest, joules, grams, fits] = [0, 0, 0, true];
  clients.forEach((client, n) => {
    const seen = Number.isFinite(last[n]);
    const drawn = spent[n] + (seen ? client.tailPower * client.tailTime : 0);
    const asleep = Math.max(now, seen ? last[n] + client.tailTime : now);
    rest += counts[n] * client.idle;
    joules += counts[n] * drawn;
    grams += counts[n] * client.emitted * (client.idle * now + drawn);
    fits &&= drawn + client.idle * asleep < client.reserve;
  });
  return { seconds: now, joules: rest * now + joules, grams, fits };
}
