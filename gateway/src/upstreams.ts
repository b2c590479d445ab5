import { Agent, get } from 'node:http';

/** One replica of a service. */
export interface Upstream {
  readonly host: string;
  readonly port: number;
  readonly agent: Agent;
}

interface Watched extends Upstream {
  /** By its last answer about itself; true until it was asked. */
  isReady: boolean;
  /** On the clock of `performance.now()`: left alone until then, because it could not be reached. */
  avoidedUntilMs: number;
}

/** The replicas of one service, in turn. */
export interface Upstreams {
  /** Each once, those that can be expected to answer first. A replica that is not ready is better than none. */
  inTurn(): readonly Upstream[];
  /** It could not be reached. */
  avoid(upstream: Upstream): void;
  close(): void;
}

const checkMs = 1_000;
const avoidMs = 1_000;

export function createUpstreams(addresses: readonly URL[]): Upstreams {
  const all: Watched[] = addresses.map((address) => ({
    host: address.hostname,
    port: Number(address.port || 80),
    // Below the 65 s after which a service closes what is idle, so that a request does not meet a closing connection.
    agent: new Agent({ keepAlive: true, timeout: 30_000, maxFreeSockets: 256 }),
    isReady: true,
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
  const { host, port } = upstream;
  const found = (isReady: boolean) => {
    upstream.isReady = isReady;
  };
  const request = get({ host, port, path: '/health/ready', agent: false, timeout: 5_000 }, (response) => {
    response.resume();
    found(response.statusCode === 200);
  });
  request.on('timeout', () => request.destroy());
  request.on('error', () => found(false));
}
