import { Agent, get } from 'node:http';

/** One replica of a service. */
export interface Upstream {
  readonly host: string;
  readonly port: number;
  readonly agent: Agent;
}

/** A replica took a request and does not answer any more: its process is stopped, or its machine is gone. */
export class UpstreamFrozenError extends Error {}

interface Watched extends Upstream {
  /** The replica's last answer to the health check; true before the first check. */
  isReady: boolean;
  /** Number of liveness checks, one a second, since the last one that was answered. */
  silentChecks: number;
  /** On the clock of `performance.now()`: the replica is avoided until then, because it could not be reached. */
  avoidedUntilMs: number;
}

/** The replicas of one service, in turn. */
export interface Upstreams {
  /** Each replica once, the ones that are most likely to answer first. A replica that is not ready is better than none. */
  inTurn(): readonly Upstream[];
  /** The replica could not be reached. */
  avoid(upstream: Upstream): void;
  close(): void;
}

const checkMs = 1_000;
const avoidMs = 1_000;
/**
 * A replica that answers no check for this number of seconds is frozen. A busy replica answers late. Checks are counted instead of time,
 * because this process may have been stopped itself.
 */
const frozenAfterChecks = 8;

export function createUpstreams(addresses: readonly URL[]): Upstreams {
  const all: Watched[] = addresses.map((address) => ({
    host: address.hostname,
    port: Number(address.port || 80),
    // Below the 65 s after which a service closes idle connections, so that a request does not meet a closing connection.
    agent: new Agent({ keepAlive: true, timeout: 30_000, maxFreeSockets: 256 }),
    isReady: true,
    silentChecks: 0,
    avoidedUntilMs: 0,
  }));
  let turn = 0;
  const checks = setInterval(() => all.forEach((upstream) => check(upstream)), checkMs);
  checks.unref();

  return {
    inTurn() {
      turn = (turn + 1) % all.length;
      const order = [...all.slice(turn), ...all.slice(0, turn)];
      const now = performance.now();
      const rank = ({ isReady, avoidedUntilMs }: Watched) => (avoidedUntilMs > now ? 2 : isReady ? 0 : 1);
      return order.sort((left, right) => rank(left) - rank(right));
    },
    avoid(upstream) {
      const watched = all.find((each) => each === upstream);
      if (watched) watched.avoidedUntilMs = performance.now() + avoidMs;
    },
    close() {
      clearInterval(checks);
      for (const { agent } of all) agent.destroy();
    },
  };
}

function check(upstream: Watched): void {
  void ask(upstream, '/health/ready', checkMs).then((status) => {
    upstream.isReady = status === 200;
  });
  upstream.silentChecks += 1;
  void ask(upstream, '/health/live', frozenAfterChecks * checkMs).then((status) => {
    if (status !== undefined) upstream.silentChecks = 0;
  });
  if (upstream.silentChecks > frozenAfterChecks) abandonRequests(upstream);
}

/** The status of the answer; undefined when there is none in time. */
function ask({ host, port }: Upstream, path: string, timeout: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const request = get({ host, port, path, agent: false, timeout }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on('timeout', () => request.destroy());
    request.on('close', () => resolve(undefined));
    request.on('error', () => resolve(undefined));
  });
}

/** Ends the requests that wait for the replica: a read is tried on another replica, the outcome of a write is unknown. */
function abandonRequests({ agent }: Upstream): void {
  for (const socket of Object.values(agent.sockets).flat())
    socket?.destroy(new UpstreamFrozenError('the service does not answer any more'));
}
