// What elements are made of in the bundle.

export { Fragment, h } from "preact";
