// Fleets: the figures of the clients of a group, from the constants of its blocks.
// It is fedsim/addons/robustness/fleets.py in one world; names are the same.

const KILOWATT_HOUR = 3.6e6; // J: intensities are in grams for one

/** Return a group with some of its constants in other places; `moved` has them by "radio.up". */
function movedGroup(group, moved) {
  if (!moved) return group;
  const changed = { ...group, radio: { ...group.radio }, device: { ...group.device } };
  for (const [key, value] of Object.entries(moved)) {
    const [block, field] = key.split(".");
    if (block === "carbon") changed.intensity = value;
    else changed[block][field] = value;
  }
  return changed;
}

/** Return why a group cannot have its constants; empty if it can. */
function invalidGroup(group) {
  if (group.device.speed !== null && group.device.active < group.device.idle)
    return "active power is below idle power";
  return "";
}

/** Return the figures of a client of a group: rates in bit/s, powers in W, times in s. */
function clientOf(group, server) {
  const { radio, device } = group;
  const waiting = radio.listening * radio.listen + (1 - radio.listening) * radio.sleep;
  const beyond = (power) => Math.max(power - waiting, 0);
  const stateful = radio.tail_time > 0 || radio.promotion_time > 0;
  const tailPower = stateful ? beyond(radio.tail_power) : 0;
  const byState = radio.send > 0 || radio.receive > 0;
  // While a message is in progress the radio is connected. One of constant state powers draws no
  // less than its tail then; one of energies per bit draws its base.
  const base = beyond(radio.base);
  const held = byState ? Math.max(base, tailPower) : base;
  const perBit = (energy, busy, rate) =>
    energy + (byState ? Math.max(radio.base + busy - waiting - held, 0) : 0) / rate;
  const lane = (rate, energy, busy) => ({
    rate,
    latency: radio.latency + server.latency,
    perBit: perBit(energy, busy, rate),
    power: held,
  });
  const bySpeed = device.speed !== null;
  return {
    idle: device.idle + radio.idle + waiting,
    working: bySpeed ? device.active - device.idle : device.kappa * device.frequency ** 3,
    perOperation: bySpeed ? 1 / device.speed : 0,
    perSample: bySpeed ? 0 : device.cycles_per_sample / device.frequency,
    stateful,
    tailPower,
    tailTime: stateful ? radio.tail_time : 0,
    promotionPower: stateful ? beyond(radio.promotion_power) : 0,
    promotionTime: stateful ? radio.promotion_time : 0,
    framing: Math.floor(radio.framing),
    packet: radio.packet,
    reserve: reserveOf(group),
    emitted: group.intensity === null ? 0 : group.intensity / KILOWATT_HOUR,
    down: lane(radio.down, radio.energy_down, radio.receive),
    up: lane(radio.up, radio.energy_up, radio.send),
  };
}

/** Return the energy that a battery delivers before it reaches a mark, J; infinite on mains. */
function reserveOf({ reserve, device }) {
  if (reserve === null) return Infinity;
  return (reserve.capacity || device.battery) * reserve.share * reserve.efficiency;
}

/** Return a fleet: the client of each group, and the two links that all share. */
function fleetOf(groups, server) {
  const clients = groups.map((group) => clientOf(group, server));
  const total = (way) =>
    groups.reduce((sum, group, number) => sum + group.count * clients[number][way].rate, 0);
  const order = (way) =>
    [...groups.keys()].sort((a, b) => clients[a][way].rate - clients[b][way].rate || a - b);
  const link = (way, capacity) => ({ capacity, contended: total(way) > capacity, order: order(way) });
  return {
    clients,
    stateful: clients.some((client) => client.stateful),
    down: link("down", server.downlink),
    up: link("up", server.uplink),
  };
}
