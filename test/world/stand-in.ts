/** A reference to an object that a hook makes later, and makes again for each test. */
export const standIn = <Made extends object>(current: () => Made): Made =>
  new Proxy({} as Made, {
    get: (_target, name) => Reflect.get(current(), name) as unknown,
    set: (_target, name, value) => Reflect.set(current(), name, value),
  });
