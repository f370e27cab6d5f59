/** The curves of the selected measure over what was spent: messages, or their cost at the prices of the advice. */
Skerry.widgets.cost = (root, data, page) =>
  Skerry.widgets.curves(root, { ...data, over: data.prices ? "priced" : "messages", bands: false }, page);
