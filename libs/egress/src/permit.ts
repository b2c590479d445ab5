import { DecoratorHandler, type Agent, type Dispatcher } from 'undici';

/**
 * Decides whether a request may leave. Called before each attempt, and again when the connection took long: the first byte leaves at most
 * 100 ms after the decision. The request fails with the error of this function.
 */
export type Permit = () => Promise<void>;

/** A decision to send is used for no longer than this. A look-up, a connection or a handshake may take seconds. */
const permittedMs = 100;
/** With a connection that exists, the next attempt leaves at once. A server that closes it each time is given up. */
const attempts = 5;

/** Thrown before the first byte is written. The connection stays open for the next attempt. */
class PermissionExpiredError extends Error {}

/** Stops a request whose connection is there only after `untilMs`. */
function startedBy(untilMs: number): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    const starting: Dispatcher.DispatchHandler = new DecoratorHandler(handler);
    const start = starting.onRequestStart?.bind(starting);
    starting.onRequestStart = (...started) => {
      if (performance.now() > untilMs) throw new PermissionExpiredError();
      start?.(...started);
    };
    return dispatch(options, starting);
  };
}

/** The error of `permit`, so that it is not taken for one of the exchange. */
export class RefusedError extends Error {}

/** @throws RefusedError with the error of `permit` as its cause; else the error of `start` */
export async function permitted<Answer>(
  permit: Permit | undefined,
  agent: Agent,
  start: (dispatcher: Dispatcher) => Promise<Answer>,
): Promise<Answer> {
  if (!permit) return start(agent);
  for (let attempt = 1; ; attempt += 1) {
    await permit().catch((cause: unknown) => {
      throw new RefusedError('refused', { cause });
    });
    try {
      return await start(agent.compose(startedBy(performance.now() + permittedMs)));
    } catch (error) {
      if (!(error instanceof PermissionExpiredError) || attempt === attempts) throw error;
    }
  }
}
