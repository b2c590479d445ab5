import { Context, Liquid, type Emitter, type FilterImplOptions } from 'liquidjs';
import type { Evaluation } from './evaluation.ts';
import { vaultFilters, FilterValueError, type RandomInt, type VaultFilter } from './filters/index.ts';
import { measure, type Json } from './json.ts';
import { limits } from './limits.ts';
import { LimitError, tooLarge } from './meter.ts';
import { outputText } from './output-text.ts';

type Handler = Extract<FilterImplOptions, (...args: never[]) => unknown>;
type FilterThis = ThisParameterType<Handler>;

/** The engine has no files and partials; `block` is only useful with `layout`. */
const removedTags = ['include', 'render', 'layout', 'block'];

/**
 * These filters belong to Jekyll, not to Liquid. They evaluate text — also stored data — as code, without any limit of the engine. `sample`
 * draws from Math.random and would be mistaken for an alias.
 */
const removedFilters = [
  'where_exp',
  'reject_exp',
  'group_by_exp',
  'has_exp',
  'find_exp',
  'find_index_exp',
  'sample',
];

const randomRegister = 'random';

/**
 * Limits every value of a template: filters accept values of limited size and return values of limited size. So a structure that doubles
 * itself (`{% assign a = a | push: a %}`) ends early, and each step between two checks of the clock is short.
 */
function guard(handler: Handler): Handler {
  return function* (
    this: FilterThis,
    value: unknown,
    ...args: unknown[]
  ): Generator<unknown, unknown, unknown> {
    this.context.renderLimit.check(performance.now());
    for (const input of [value, ...args])
      if (Array.isArray(input) && input.length > limits.filterArray) throw new LimitError(tooLarge);
    const result: unknown = yield handler.call(this, value, ...args);
    if (measure(result, limits.value) > limits.value) throw new LimitError(tooLarge);
    return result;
  };
}

function adapt(filter: VaultFilter): Handler {
  return function (this: FilterThis, value: unknown, ...args: unknown[]): unknown {
    if (args.length > filter.maxArguments)
      throw new FilterValueError(`Filter ${filter.name} has too many arguments.`);
    const random = this.context.getRegister<RandomInt>(randomRegister);
    return filter.bind(args)((value ?? null) as Json, random);
  };
}

/** Collects output and counts it as memory. */
class MeteredEmitter implements Emitter {
  buffer = '';
  readonly #use: (count: number) => void;

  constructor(use: (count: number) => void) {
    this.#use = use;
  }

  write(value: unknown): void {
    const text = outputText(value);
    this.#use(text.length);
    this.buffer += text;
  }
}

function createEngine(): Liquid {
  const engine = new Liquid({
    ownPropertyOnly: true,
    strictFilters: true,
    relativeReference: false,
    templates: {},
    parseLimit: limits.sourceLength,
    locale: 'en-US',
    timezoneOffset: 0,
  });
  for (const tag of removedTags) delete engine.tags[tag];
  for (const filter of removedFilters) engine.unregisterFilter(filter);
  for (const filter of vaultFilters.values()) engine.registerFilter(filter.name, adapt(filter));
  for (const [name, filter] of Object.entries(engine.filters))
    engine.registerFilter(name, guard(typeof filter === 'function' ? filter : filter.handler));

  // Every tag renders its body through this method. Without our emitter, `capture` would collect without a limit.
  const { renderer } = engine;
  const renderTemplates = renderer.renderTemplates.bind(renderer);
  renderer.renderTemplates = (templates, context, emitter) =>
    renderTemplates(
      templates,
      context,
      emitter ?? new MeteredEmitter((count) => context.memoryLimit.use(count)),
    );
  return engine;
}

export const engine = createEngine();

/** A new context for each expression, so that an assignment in one does not reach another. The limits are shared. */
export function createContext({ scope, random, meter }: Evaluation): Context {
  // A copy, because `increment` writes to the scope. Without a prototype, so that it has only our names.
  const own: object = Object.assign(Object.create(null) as object, scope);
  const { memoryLimit, renderLimit } = meter.engine();
  const context = new Context(own, engine.options, { sync: true }, { liquid: engine });
  // The engine calls only these methods of its limiters.
  Object.assign(context.memoryLimit, memoryLimit);
  Object.assign(context.renderLimit, renderLimit);
  context.setRegister(randomRegister, random);
  return context;
}
